//! What is measured here: the host side by criterion (`cargo bench -p gristmill-benches`). A GPU is
//! measured by `gristmill kernels bench`, whose recorded results lie in `results`.
