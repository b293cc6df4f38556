//! `#[kernel]` as its users meet it: variants, descriptors, refusals and launches on the emulator.

use std::marker::PhantomData;

use simt::emulator::{self, Memory, Mode};
use simt::launch::{
    self, DeviceMut, DeviceRef, Grid, Kernel, Launch, LaunchError, Param, ParamKind, Queue,
    RawBuffer,
};
use simt::prelude::*;

/// An odd modulus. Without `Debug`, so that a refusal cannot print it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Modulus {
    /// The modulus.
    pub q: u32,
    /// Something else, so that the type is more than a number.
    pub shift: u32,
}

// SAFETY: two `u32` in C layout.
unsafe impl bytemuck::Zeroable for Modulus {}
// SAFETY: two `u32` in C layout leave no padding, and every bit pattern is a value.
unsafe impl bytemuck::Pod for Modulus {}
// SAFETY: plain data.
unsafe impl Element for Modulus {}

impl Modulus {
    fn is_valid(self) -> bool {
        self.q % 2 == 1
    }
}

/// Lanes of a warp, as a constant that only the compiler knows.
const WARP: u32 = 32;

/// `c[i] = a[i] * b[i] * FACTOR (+ shift) mod q`.
///
/// A second paragraph.
#[kernel(
    block = 32 * FACTOR,
    variants(FACTOR = [1, 2, 4], SHIFTED = [false, true]),
    min_blocks = 2,
    shared = 4 << FACTOR,
    requires(n as usize <= c.len() && n as usize <= a.len(), q.is_valid(), queue % FACTOR as u64 == 0)
)]
pub fn scaled_product<const FACTOR: u32, const SHIFTED: bool>(
    a: Global<u32>,
    b: Global<u32>,
    c: GlobalMut<u32>,
    n: u32,
    q: Modulus,
    // Named like a parameter of `launch`.
    queue: u64,
) {
    for i in grid::stride::<1>(n as usize) {
        let shift = if SHIFTED { q.shift } else { 0 };
        c.write(
            i,
            (a.read(i) * b.read(i) * FACTOR + shift + queue as u32) % q.q,
        );
    }
}

/// A kernel without const generics.
#[kernel(block = 2 * WARP)]
pub(crate) fn fill(mut a: GlobalMut<U32x2>, value: U32x2) {
    a = a.offset(0);
    a.write(grid::global_id(), value);
}

/// A block per element: the grid must be the buffer's.
#[kernel(block = 1, requires(grid.x as usize == a.len() && grid.y == 1))]
fn one_block_each(a: GlobalMut<u32>) {
    a.write(thread::block_idx_x() as usize, 1);
}

/// A parameter hides the launch's grid.
#[kernel(block = 1, requires(grid == 5))]
fn with_a_grid_of_its_own(a: GlobalMut<u32>, grid: u32) {
    a.write(0, grid);
}

/// Filtered variants, a negative value, and an architecture of its own.
#[kernel(block = 128, arch = "sm_90a", variants(LOG_N = [10, 11], STEP = [-1, 8]), when = LOG_N >= 11 || STEP == 8)]
fn filtered<const LOG_N: u8, const STEP: i64>(a: GlobalMut<u64>) {
    a.write(LOG_N as usize, STEP as u64);
}

#[kernel(block = 32)]
#[cfg(any())]
fn configured_out(a: GlobalMut<DoesNotExist>) {}

const MODE: Mode = Mode::Checked { seed: 1 };

/// The least a backend can be.
struct Machine {
    device: u64,
}

impl Queue for Machine {
    fn launch(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        launch.on_device(self.device)?;
        emulator::run(launch, MODE)
    }
}

struct Buffer<T> {
    memory: Memory,
    device: u64,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    fn new(device: u64, values: &[T]) -> Self {
        let memory = Memory::uninit(size_of_val(values), MODE).unwrap();
        memory.copy_in(0, bytemuck::cast_slice(values));
        Self {
            memory,
            device,
            element: PhantomData,
        }
    }

    fn values(&self) -> Vec<T> {
        let mut values = vec![T::zeroed(); self.len()];
        self.memory
            .copy_out(0, bytemuck::cast_slice_mut(&mut values));
        values
    }
}

impl<T: Element> DeviceRef<T> for Buffer<T> {
    fn len(&self) -> usize {
        self.memory.len() / size_of::<T>()
    }

    fn raw(&self) -> RawBuffer {
        self.memory.raw(self.device)
    }
}

impl<T: Element> DeviceMut<T> for Buffer<T> {
    fn raw_mut(&mut self) -> RawBuffer {
        self.memory.raw(self.device)
    }
}

const MACHINE: Machine = Machine { device: 7 };
const Q: Modulus = Modulus { q: 17, shift: 3 };

fn product(
    variant: scaled_product::Variant,
    n: u32,
    q: Modulus,
    queue: u64,
) -> Result<Vec<u32>, LaunchError> {
    let a = Buffer::new(7, &[1u32, 2, 3, 4]);
    let b = Buffer::new(7, &[5u32, 6, 7, 8]);
    let mut c = Buffer::new(7, &[0u32; 3]);
    scaled_product::launch(&MACHINE, variant, Grid::x(2), &a, &b, &mut c, n, q, queue)?;
    Ok(c.values())
}

fn refusal(result: Result<Vec<u32>, LaunchError>) -> String {
    match result {
        Err(error @ LaunchError::Refused { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn every_variant_runs_its_own_constants() {
    assert_eq!(scaled_product::Variant::ALL.len(), 6);
    for &variant in scaled_product::Variant::ALL {
        let scaled_product::Variant { factor, shifted } = variant;
        let shift = if shifted { 3 } else { 0 };
        let expected = [5, 12, 21].map(|product| (product * factor + shift + 8) % 17);
        assert_eq!(
            product(variant, 3, Q, 8).unwrap(),
            expected,
            "{}",
            variant.name()
        );
    }
}

#[test]
fn a_kernel_without_consts_has_one_unit_variant() {
    let mut a = Buffer::new(7, &[U32x2([0, 0]); 64]);
    fill::launch(&MACHINE, fill::Variant, Grid::x(1), &mut a, U32x2([3, 4])).unwrap();
    assert_eq!(a.values(), [U32x2([3, 4]); 64]);
    assert_eq!(fill::Variant::ALL, [fill::Variant]);
    assert_eq!(fill::Variant.name(), "fill");
    assert_eq!(fill::KERNEL.variants[0].block, 64);
}

#[test]
fn a_launch_takes_trait_objects() {
    let queue: &dyn Queue = &MACHINE;
    let a: &dyn DeviceRef<u32> = &Buffer::new(7, &[1u32]);
    let c: &mut dyn DeviceMut<u32> = &mut Buffer::new(7, &[0u32]);
    let variant = scaled_product::Variant {
        factor: 1,
        shifted: false,
    };
    scaled_product::launch(queue, variant, Grid::x(1), a, a, c, 1, Q, 0).unwrap();
}

#[test]
fn a_requirement_that_fails_is_quoted_with_its_values() {
    let variant = scaled_product::Variant {
        factor: 4,
        shifted: true,
    };
    assert_eq!(
        refusal(product(variant, 4, Q, 0)),
        "scaled_product__factor_4__shifted_1: launch refused: it requires n as usize <= c.len() && n as usize <= a.len(), \
         but a.len() = 4, c.len() = 3, n = 4"
    );
    // A value without `Debug` is left out.
    assert_eq!(
        refusal(product(variant, 3, Modulus { q: 16, shift: 0 }, 0)),
        "scaled_product__factor_4__shifted_1: launch refused: it requires q.is_valid()"
    );
    // Const generics have the values of the variant.
    assert_eq!(
        refusal(product(variant, 3, Q, 2)),
        "scaled_product__factor_4__shifted_1: launch refused: it requires queue % FACTOR as u64 == 0, \
         but FACTOR = 4, queue = 2"
    );
    let variant = scaled_product::Variant {
        factor: 2,
        shifted: true,
    };
    product(variant, 3, Q, 2).unwrap();
}

#[test]
fn a_requirement_may_name_the_grid() {
    let mut a = Buffer::new(7, &[0u32; 3]);
    let error =
        one_block_each::launch(&MACHINE, one_block_each::Variant, Grid::x(2), &mut a).unwrap_err();
    assert_eq!(
        error.to_string(),
        "one_block_each: launch refused: it requires grid.x as usize == a.len() && grid.y == 1, \
         but a.len() = 3, grid = 2 x 1 x 1"
    );
    one_block_each::launch(&MACHINE, one_block_each::Variant, Grid::x(3), &mut a).unwrap();
    assert_eq!(a.values(), [1, 1, 1]);
}

#[test]
fn a_parameter_hides_the_grid() {
    let variant = with_a_grid_of_its_own::Variant;
    let mut a = Buffer::new(7, &[0u32]);
    let error =
        with_a_grid_of_its_own::launch(&MACHINE, variant, Grid::x(5), &mut a, 4).unwrap_err();
    assert_eq!(
        error.to_string(),
        "with_a_grid_of_its_own: launch refused: it requires grid == 5, but grid = 4"
    );
    with_a_grid_of_its_own::launch(&MACHINE, variant, Grid::x(1), &mut a, 5).unwrap();
    assert_eq!(a.values(), [5]);
}

#[test]
fn a_variant_that_was_not_built_is_refused() {
    let variant = scaled_product::Variant {
        factor: 3,
        shifted: true,
    };
    assert_eq!(variant.info().map(|info| info.name), None);
    assert_eq!(variant.name(), "scaled_product (no such variant)");
    assert_eq!(
        refusal(product(variant, 3, Q, 0)),
        "scaled_product: launch refused: Variant { factor: 3, shifted: true } is not among the 6 variants built"
    );
}

#[test]
fn a_buffer_of_another_device_is_refused() {
    let mut a = Buffer::new(8, &[U32x2([0, 0]); 64]);
    let error =
        fill::launch(&MACHINE, fill::Variant, Grid::x(1), &mut a, U32x2([3, 4])).unwrap_err();
    assert!(matches!(error, LaunchError::Refused { .. }), "{error}");
    assert!(
        error.to_string().starts_with("fill: launch refused: `a` "),
        "{error}"
    );
    assert_eq!(a.values(), [U32x2([0, 0]); 64]);
}

#[test]
fn an_empty_grid_is_refused() {
    let mut a = Buffer::new(7, &[U32x2([0, 0]); 64]);
    let error =
        fill::launch(&MACHINE, fill::Variant, Grid::x(0), &mut a, U32x2([3, 4])).unwrap_err();
    assert!(matches!(error, LaunchError::Refused { .. }), "{error}");
}

#[test]
fn a_fault_names_variant_and_line_of_the_kernel() {
    let mut a = Buffer::new(7, &[U32x2([0, 0]); 63]);
    let error =
        fill::launch(&MACHINE, fill::Variant, Grid::x(1), &mut a, U32x2([3, 4])).unwrap_err();
    let LaunchError::Fault(fault) = error else {
        panic!("no fault: {error}")
    };
    assert_eq!(fault.thread, 63);
    assert!(fault.file.ends_with("tests/kernel.rs"), "{fault}");
    assert!(
        (fill::KERNEL.line..fill::KERNEL.line + 5).contains(&fault.line),
        "{fault}"
    );
}

#[test]
fn the_descriptor_says_what_the_source_says() {
    let Kernel {
        name,
        doc,
        params,
        variants,
        file,
        line,
    } = &scaled_product::KERNEL;
    assert_eq!(*name, "scaled_product");
    assert_eq!(
        *doc,
        "`c[i] = a[i] * b[i] * FACTOR (+ shift) mod q`.\n\nA second paragraph."
    );
    let global = ParamKind::Global {
        element: "u32",
        size: 4,
    };
    let expected = [
        Param {
            name: "a",
            kind: global,
        },
        Param {
            name: "b",
            kind: global,
        },
        Param {
            name: "c",
            kind: ParamKind::GlobalMut {
                element: "u32",
                size: 4,
            },
        },
        Param {
            name: "n",
            kind: ParamKind::Scalar { ty: "u32", size: 4 },
        },
        Param {
            name: "q",
            kind: ParamKind::Scalar {
                ty: "Modulus",
                size: 8,
            },
        },
        Param {
            name: "queue",
            kind: ParamKind::Scalar { ty: "u64", size: 8 },
        },
    ];
    assert_eq!(*params, expected);
    let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
    let expected = [
        "scaled_product__factor_1__shifted_0",
        "scaled_product__factor_1__shifted_1",
        "scaled_product__factor_2__shifted_0",
        "scaled_product__factor_2__shifted_1",
        "scaled_product__factor_4__shifted_0",
        "scaled_product__factor_4__shifted_1",
    ];
    assert_eq!(names, expected);
    let last = &variants[5];
    assert_eq!(last.constants, [("FACTOR", 4), ("SHIFTED", 1)]);
    assert_eq!(
        (last.block, last.min_blocks, last.shared_bytes),
        (128, 2, 64)
    );
    assert_eq!((last.min_arch, last.arch_feature), (80, None));
    assert!(file.ends_with("tests/kernel.rs"));
    let source = include_str!("kernel.rs")
        .lines()
        .nth(*line as usize - 1)
        .unwrap();
    assert!(source.contains("fn scaled_product"), "{source}");
}

#[test]
fn filters_and_architectures_reach_the_descriptor() {
    let names: Vec<&str> = filtered::KERNEL
        .variants
        .iter()
        .map(|variant| variant.name)
        .collect();
    let expected = [
        "filtered__log_n_10__step_8",
        "filtered__log_n_11__step_m1",
        "filtered__log_n_11__step_8",
    ];
    assert_eq!(names, expected);
    let info = filtered::Variant {
        log_n: 11,
        step: -1,
    }
    .info()
    .unwrap();
    assert_eq!(info.constants, [("LOG_N", 11), ("STEP", -1)]);
    assert_eq!((info.min_arch, info.arch_feature), (90, Some("sm_90a")));
    assert_eq!((info.min_blocks, info.shared_bytes), (0, 0));
    assert!(
        filtered::Variant {
            log_n: 10,
            step: -1
        }
        .info()
        .is_none()
    );
}

#[test]
fn the_registry_lists_every_variant_once() {
    let kernels = launch::kernels();
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name).collect();
    assert_eq!(
        names,
        [
            "fill",
            "filtered",
            "one_block_each",
            "scaled_product",
            "with_a_grid_of_its_own"
        ]
    );
    let mut variants: Vec<&str> = kernels
        .iter()
        .flat_map(|kernel| kernel.variants)
        .map(|variant| variant.name)
        .collect();
    assert_eq!(variants.len(), 3 + 1 + 1 + 6 + 1);
    variants.sort_unstable();
    variants.dedup();
    assert_eq!(variants.len(), 3 + 1 + 1 + 6 + 1);
}
