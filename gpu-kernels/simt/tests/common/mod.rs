//! Hand-made kernels: what `#[kernel]` generates, spelled out for closures of one test.

// Each test crate uses its own part of this module.
#![allow(dead_code, missing_docs, unreachable_pub)]

use simt::emulator::{self, Fault, Memory, Mode};
use simt::launch::{
    Grid, HostEntry, Kernel, Launch, LaunchError, Param, ParamKind, RawArg, VariantInfo,
};

/// A kernel over `buffers` buffers of bytes, named after the test.
pub fn kernel(
    name: &'static str,
    buffers: usize,
    block: u32,
    shared_bytes: u32,
    entry: HostEntry,
) -> &'static Kernel {
    let param = Param {
        name: "buffer",
        kind: ParamKind::GlobalMut {
            element: "u8",
            size: 1,
        },
    };
    let variant = VariantInfo {
        name,
        constants: &[],
        block,
        min_blocks: 0,
        shared_bytes,
        min_arch: 80,
        arch_feature: None,
        entry,
    };
    Box::leak(Box::new(Kernel {
        name,
        doc: "",
        params: vec![param; buffers].leak(),
        variants: vec![variant].leak(),
        file: file!(),
        line: line!(),
    }))
}

/// Runs the kernel's only variant over `grid` blocks.
pub fn launch(
    kernel: &'static Kernel,
    grid: u32,
    buffers: &[&Memory],
    mode: Mode,
) -> Result<(), LaunchError> {
    let args: Vec<RawArg<'_>> = buffers
        .iter()
        .map(|memory| RawArg::Buffer(memory.raw(0)))
        .collect();
    emulator::run(
        &Launch {
            kernel,
            variant: &kernel.variants[0],
            grid: Grid::x(grid),
            args: &args,
        },
        mode,
    )
}

/// The fault that the launch must end with.
pub fn fault(result: Result<(), LaunchError>) -> Fault {
    match result {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Memory that holds `values`.
pub fn memory<T: bytemuck::Pod>(values: &[T], mode: Mode) -> Memory {
    let bytes = bytemuck::cast_slice::<T, u8>(values);
    let memory = Memory::zeroed(bytes.len(), mode).expect("memory");
    memory.copy_in(0, bytes);
    memory
}

/// What `memory` holds.
pub fn values<T: bytemuck::Pod>(memory: &Memory) -> Vec<T> {
    let mut values = vec![T::zeroed(); memory.len() / size_of::<T>()];
    memory.copy_out(0, bytemuck::cast_slice_mut(&mut values));
    values
}

/// The line of `source` that ends with `// marker`.
pub fn line_of(source: &str, marker: &str) -> u32 {
    let end = format!("// {marker}");
    let line = source.lines().position(|line| line.ends_with(&end));
    line.unwrap_or_else(|| panic!("no line ends with {end}")) as u32 + 1
}
