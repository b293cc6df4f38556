//! Embeds the kernel image. Without `GRISTMILL_ARCH` it is empty and needs no GPU tool.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=GRISTMILL_COMMIT=unknown");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let bytes = codegen::image::Image::empty()
        .to_bytes()
        .expect("an empty image encodes");
    std::fs::write(format!("{out}/image.bin"), bytes).expect("the image is written");
}
