//! What the protocols ask of the family: a database of signed bytes times columns of words.

use gpu_kernels::byte_product::{Shape, byte_matmul, byte_matvec};
use simt::launch::{Grid, KernelVariant, LaunchError, Queue, VariantInfo};

use super::{Matmul, Matvec, Operands, packed};
use crate::backend::{Backend, Buffer, Kind};
use crate::trial::{AnyTrial, Case, Inputs, Job, TrialError, constant};

/// Most columns that count as a batch of queries.
const MOST_QUERIES: u32 = 64;

/// The kernels that can do all of it.
const TRIALS: &[&dyn AnyTrial] = &[&Matvec, &Matmul];

/// Who takes many columns. The emulator takes them one by one: the lanes of a warp meet there for every instruction of a tensor
/// core, and a column of 344 x 3,942 bytes took three times as long.
const MANY_COLUMNS: &[(&str, &str)] = &[
    ("cpu", "byte_matvec__signed__rows_8"),
    ("", "byte_matmul__signed__column_tiles_4"),
];

/// The product with one column: a query.
pub static ONE_COLUMN: Job = Job {
    name: "byte_product.one_column",
    what: "database x one query",
    trials: TRIALS,
    fits: signed,
    defaults: &[("", "byte_matvec__signed__rows_8")],
    case: |backend, variant, seed| {
        case(
            backend,
            variant,
            seed,
            (512, 4096, 1),
            (1 << 15, 1 << 16, 1),
        )
    },
};

/// The product with a few columns: queries answered together, or one query of a wide record.
pub static QUERIES: Job = Job {
    name: "byte_product.queries",
    what: "database x 2 to 64 queries",
    trials: TRIALS,
    fits: signed,
    defaults: MANY_COLUMNS,
    case: |backend, variant, seed| {
        case(
            backend,
            variant,
            seed,
            (344, 3942, 8),
            (1 << 15, 1 << 16, 32),
        )
    },
};

/// The product with many columns: the hint.
pub static HINT: Job = Job {
    name: "byte_product.hint",
    what: "database x the public matrix",
    trials: TRIALS,
    fits: signed,
    defaults: MANY_COLUMNS,
    case: |backend, variant, seed| {
        case(
            backend,
            variant,
            seed,
            (344, 3942, 72),
            (1 << 13, 1 << 13, 1280),
        )
    },
};

fn signed(variant: &VariantInfo) -> bool {
    constant(variant, "SIGNED") == Some(1)
}

/// The job that a product with so many columns is.
pub fn job_for(columns: u32) -> &'static Job {
    match columns {
        0..=1 => &ONE_COLUMN,
        2..=MOST_QUERIES => &QUERIES,
        _ => &HINT,
    }
}

/// `Y = D X` modulo 2^32 by any variant of the family, on the stream or backend `queue`: many columns one after the other where
/// the variant takes one.
///
/// # Errors
///
/// [`LaunchError::Refused`] where the buffers are too short for `shape` or the variant is of another family; the rest where the
/// launch fails.
pub fn multiply(
    queue: &dyn Queue,
    variant: &'static VariantInfo,
    database: &Buffer<u8>,
    x: &Buffer<u32>,
    y: &mut Buffer<u32>,
    shape: Shape,
) -> Result<(), LaunchError> {
    let refused = |reason: &dyn ToString| LaunchError::Refused {
        kernel: variant.name,
        reason: reason.to_string(),
    };
    // Before anything runs: one of many launches is no place to find it.
    let holds = |len: usize, wanted: u64| wanted <= len as u64;
    if !(shape.is_valid()
        && holds(database.len(), shape.database_len())
        && holds(x.len(), shape.x_len())
        && holds(y.len(), shape.y_len()))
    {
        return Err(refused(&"the buffers do not hold the shape"));
    }
    if let Some(variant) = byte_matmul::Variant::of(variant) {
        let grid = Grid::x(shape.matmul_blocks(variant.column_tiles));
        return byte_matmul::launch(queue, variant, grid, database, x, y, shape);
    }
    let variant = byte_matvec::Variant::of(variant)
        .ok_or_else(|| refused(&"it does not multiply bytes by words"))?;
    let grid = Grid::x(shape.matvec_blocks(variant.rows));
    let one = Shape {
        columns: 1,
        ..shape
    };
    let (inner, rows) = (shape.x_stride as usize, shape.y_stride as usize);
    for column in 0..shape.columns as usize {
        let x = x
            .view(column * inner..(column + 1) * inner)
            .map_err(|error| refused(&error))?;
        let mut y = y
            .view_mut(column * rows..(column + 1) * rows)
            .map_err(|error| refused(&error))?;
        byte_matvec::launch(queue, variant, grid, database, &x, &mut y, one)?;
    }
    Ok(())
}

/// A case of rows, inner positions and columns, on the emulator and on a GPU.
fn case(
    backend: &Backend,
    variant: &'static VariantInfo,
    seed: u64,
    on_cpu: (u32, u32, u32),
    on_gpu: (u32, u32, u32),
) -> Result<Case, TrialError> {
    let (rows, inner, columns) = match backend.kind() {
        Kind::Cpu => on_cpu,
        Kind::Cuda => on_gpu,
    };
    let mut inputs = Inputs::new("byte_product job", seed);
    let operands = Operands::new(backend, &mut inputs, packed(rows, inner, columns)?)?;
    let tensor = byte_matmul::Variant::of(variant).is_some();
    Ok(operands.case(tensor, move |queue, operands| {
        let Operands {
            shape,
            database,
            x,
            y,
        } = operands;
        multiply(queue, variant, database, x, y, *shape)
    }))
}
