//! Checks, benches and floors of the `byte_product` kernels.

mod jobs;

use gpu_kernels::byte_product::{Shape, byte_matmul, byte_matvec, reference};
use simt::launch::{Grid, LaunchError, Queue};

use crate::backend::{Backend, Buffer, Kind};
pub use jobs::{HINT, ONE_COLUMN, QUERIES, job_for, multiply};

use crate::trial::{Case, Digest, Family, Inputs, Trial, TrialError, Work, repeated, verify_at};

inventory::submit! { &FAMILY }

/// The family.
pub static FAMILY: Family = Family {
    name: "byte_product",
    trials: &[&Matvec, &Matmul],
    ceilings: &[],
    jobs: &[&ONE_COLUMN, &QUERIES, &HINT],
};

struct Matvec;
struct Matmul;

impl Trial for Matvec {
    type Variant = byte_matvec::Variant;

    fn check(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
        let shape = ragged(&mut inputs, 90, 1500, 1)?;
        // Fewer blocks than there is work for: the loop over rows is tried too.
        let grid = Grid::x(1 + inputs.number_below(3) as u32);
        try_product(
            backend,
            &mut inputs,
            variant.signed,
            shape,
            |database, x, y| byte_matvec::launch(backend, variant, grid, database, x, y, shape),
        )
    }

    fn cases(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        let (rows, inner) = match backend.kind() {
            Kind::Cpu => (512, 4096),
            Kind::Cuda => (1 << 15, 1 << 16),
        };
        let operands = Operands::new(backend, &mut inputs, packed(rows, inner, 1)?)?;
        Ok(vec![operands.case(false, move |queue, operands| {
            let Operands {
                shape,
                database,
                x,
                y,
            } = operands;
            let grid = Grid::x(shape.matvec_blocks(variant.rows));
            byte_matvec::launch(queue, variant, grid, database, x, y, *shape)
        })])
    }
}

impl Trial for Matmul {
    type Variant = byte_matmul::Variant;

    fn check(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Digest, TrialError> {
        let shape = ragged(&mut inputs, 300, 700, 36)?;
        let grid = Grid::x(1 + inputs.number_below(3) as u32);
        try_product(
            backend,
            &mut inputs,
            variant.signed,
            shape,
            |database, x, y| byte_matmul::launch(backend, variant, grid, database, x, y, shape),
        )
    }

    fn cases(
        &self,
        backend: &Backend,
        variant: Self::Variant,
        mut inputs: Inputs,
    ) -> Result<Vec<Case>, TrialError> {
        // Queries: as many as one block has columns, and twice that. The hint: many columns.
        let columns = 8 * variant.column_tiles as u32;
        let sizes: &[(u32, u32, u32)] = match backend.kind() {
            Kind::Cpu => &[(256, 512, columns)],
            Kind::Cuda => &[
                (1 << 15, 1 << 16, columns),
                (1 << 15, 1 << 16, 2 * columns),
                (1 << 13, 1 << 13, 1280),
            ],
        };
        let case = |&(rows, inner, columns): &(u32, u32, u32)| {
            let operands = Operands::new(backend, &mut inputs, packed(rows, inner, columns)?)?;
            Ok(operands.case(true, move |queue, operands| {
                let Operands {
                    shape,
                    database,
                    x,
                    y,
                } = operands;
                let grid = Grid::x(shape.matmul_blocks(variant.column_tiles));
                byte_matmul::launch(queue, variant, grid, database, x, y, *shape)
            }))
        };
        sizes.iter().map(case).collect()
    }
}

/// A shape of up to so many rows, inner positions and columns, with strides larger than they must
/// be.
fn ragged(inputs: &mut Inputs, rows: u64, inner: u64, columns: u64) -> Result<Shape, TrialError> {
    let mut size = |most: u64| 1 + inputs.number_below(most) as u32;
    let shape = packed(size(rows), size(inner), size(columns))?;
    Ok(Shape {
        database_stride: shape.database_stride + 16 * (size(3) - 1),
        x_stride: shape.x_stride + 4 * (size(3) - 1),
        y_stride: shape.y_stride + size(3) - 1,
        ..shape
    })
}

fn packed(rows: u32, inner: u32, columns: u32) -> Result<Shape, TrialError> {
    Shape::packed(rows, inner, columns)
        .ok_or_else(|| TrialError::Other(format!("{rows} x {inner} bytes have no strides")))
}

/// Fills, multiplies and compares; what lies between the columns of the result must stay as it was.
fn try_product(
    backend: &Backend,
    inputs: &mut Inputs,
    signed: bool,
    shape: Shape,
    launch: impl FnOnce(&Buffer<u8>, &Buffer<u32>, &mut Buffer<u32>) -> Result<(), LaunchError>,
) -> Result<Digest, TrialError> {
    let database = inputs.bytes(shape.database_len() as usize);
    let x = inputs.words(shape.x_len() as usize);
    let before: Vec<u32> = inputs.uniform(shape.y_len() as usize);
    let mut expected = reference::product(signed, &database, &x, shape);
    let stride = shape.y_stride as usize;
    for (expected, before) in expected.chunks_mut(stride).zip(before.chunks(stride)) {
        expected[shape.rows as usize..].copy_from_slice(&before[shape.rows as usize..]);
    }

    let mut y = backend.upload(&before)?;
    launch(&backend.upload(&database)?, &backend.upload(&x)?, &mut y)?;
    verify_at(backend, "y", &y, &expected, |index| {
        format!("column {}, row {}", index / stride, index % stride)
    })
}

/// A shape to time, with its operands on the device.
struct Operands {
    shape: Shape,
    database: Buffer<u8>,
    x: Buffer<u32>,
    y: Buffer<u32>,
}

impl Operands {
    fn new(backend: &Backend, inputs: &mut Inputs, shape: Shape) -> Result<Self, TrialError> {
        Ok(Self {
            shape,
            database: repeated(backend, inputs, shape.database_len() as usize)?,
            x: repeated(backend, inputs, shape.x_len() as usize)?,
            y: backend.alloc(shape.y_len() as usize)?,
        })
    }

    /// Its case, from one launch.
    fn case(
        mut self,
        tensor: bool,
        launch: impl Fn(&dyn Queue, &mut Self) -> Result<(), LaunchError> + 'static,
    ) -> Case {
        let Shape {
            rows,
            inner,
            columns,
            ..
        } = self.shape;
        let product = u64::from(rows) * u64::from(inner) * u64::from(columns);
        let work = Work {
            bytes_read: self.shape.database_len() + 4 * self.shape.x_len(),
            bytes_written: 4 * self.shape.y_len(),
            mma_int8: if tensor { 4 * product } else { 0 },
            ..Work::default()
        };
        let shape = format!("M={rows} K={inner} N={columns}");
        Case::new(shape, work, move |stream| launch(stream, &mut self))
    }
}
