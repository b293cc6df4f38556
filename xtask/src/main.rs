//! Developer commands: `cargo xtask setup | image | sass | budget`.

fn main() {
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let r = codegen::toolchain::setup(&workspace, &mut |s| println!("{s}"));
    println!("{r:?}");
}
