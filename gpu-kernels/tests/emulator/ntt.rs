//! The transform kernels on the emulator, against textbook transforms.

use crate::harness::{self, Buffer, Emulator, modes, refusal};
use gpu_kernels::arith::prime::{NTT_16384, ntt_primes_below};
use gpu_kernels::arith::{Modulus, Shoup};
use gpu_kernels::ntt::{TwiddleTable, grid, ntt_forward, ntt_inverse, reference};
use rand_chacha::rand_core::Rng;
use simt::emulator::Mode;
use simt::launch::{Grid, LaunchError};

/// Two large primes and the smallest one that has this length.
fn table(log_n: u32) -> TwiddleTable {
    let mut moduli = NTT_16384[..2].to_vec();
    moduli.extend((1..1 << 12).find_map(|k| Modulus::new((k << (log_n + 1)) + 1)));
    TwiddleTable::new(&moduli, log_n).unwrap()
}

/// A batch `[batch][prime][N]` of values below `4q`, and the same as residues.
fn values(
    table: &TwiddleTable,
    batch: usize,
    mut value: impl FnMut(u32) -> u32,
) -> (Vec<u32>, Vec<u32>) {
    let mut lazy = Vec::new();
    let mut residues = Vec::new();
    for _ in 0..batch {
        for q in table.moduli() {
            for _ in 0..table.n() {
                let x = value(q.get());
                lazy.push(x);
                residues.push(x % q.get());
            }
        }
    }
    (lazy, residues)
}

/// Applies a reference to each polynomial.
fn expected(
    table: &TwiddleTable,
    data: &[u32],
    transform: fn(&[u32], u32, u32) -> Vec<u32>,
) -> Vec<u32> {
    let moduli = table.moduli().iter().cycle();
    data.chunks_exact(table.n())
        .zip(moduli)
        .flat_map(|(a, q)| transform(a, q.get(), q.root_of_unity(table.log_n() + 1).unwrap()))
        .collect()
}

struct Device {
    queue: Emulator,
    moduli: Buffer<Modulus>,
    forward: Buffer<Shoup>,
    inverse: Buffer<Shoup>,
}

impl Device {
    fn new(mode: Mode, table: &TwiddleTable) -> Self {
        let queue = Emulator(mode);
        Device {
            moduli: queue.upload(table.moduli()),
            forward: queue.upload(table.forward()),
            inverse: queue.upload(table.inverse()),
            queue,
        }
    }

    fn launch(&self, inverse: bool, radix: usize, table: &TwiddleTable, data: &[u32]) -> Vec<u32> {
        let (log_n, primes) = (table.log_n() as usize, table.moduli().len());
        let grid = grid(data.len() / table.n() / primes, primes).unwrap();
        let mut data = self.queue.upload(data);
        if inverse {
            let variant = ntt_inverse::Variant { log_n, radix };
            ntt_inverse::launch(
                &self.queue,
                variant,
                grid,
                &mut data,
                &self.inverse,
                &self.moduli,
                primes as u32,
            )
            .unwrap();
        } else {
            let variant = ntt_forward::Variant { log_n, radix };
            ntt_forward::launch(
                &self.queue,
                variant,
                grid,
                &mut data,
                &self.forward,
                &self.moduli,
                primes as u32,
            )
            .unwrap();
        }
        data.download()
    }
}

/// The radices that are built.
fn radices() -> Vec<usize> {
    let radices = |variants: &[(usize, usize)]| -> Vec<usize> {
        variants
            .iter()
            .filter(|(log_n, _)| *log_n == 10)
            .map(|&(_, radix)| radix)
            .collect()
    };
    let forward: Vec<_> = ntt_forward::Variant::ALL
        .iter()
        .map(|v| (v.log_n, v.radix))
        .collect();
    let inverse: Vec<_> = ntt_inverse::Variant::ALL
        .iter()
        .map(|v| (v.log_n, v.radix))
        .collect();
    assert_eq!(forward, inverse);
    assert_eq!(forward.len(), 5 * radices(&forward).len());
    radices(&forward)
}

/// All modes and radices of one length, random values and the largest ones.
fn against_the_textbook(log_n: u32) {
    let table = table(log_n);
    let mut random = harness::random(log_n.into());
    let inputs = [
        values(&table, 2, |q| match random.next_u32() % 8 {
            0 => 0,
            1 => 4 * q - 1,
            2 => q - 1,
            _ => random.next_u32() % (4 * q),
        }),
        values(&table, 1, |q| 4 * q - 1),
    ];
    for (lazy, residues) in inputs {
        let there = expected(&table, &residues, reference::forward);
        let back = expected(&table, &residues, reference::inverse);
        for mode in modes() {
            let device = Device::new(mode, &table);
            for radix in radices() {
                assert!(
                    device.launch(false, radix, &table, &lazy) == there,
                    "forward {log_n} {radix} {mode:?}"
                );
                assert!(
                    device.launch(true, radix, &table, &lazy) == back,
                    "inverse {log_n} {radix} {mode:?}"
                );
            }
        }
    }
}

#[test]
fn length_1024() {
    against_the_textbook(10);
}

#[test]
fn length_2048() {
    against_the_textbook(11);
}

#[test]
fn length_4096() {
    against_the_textbook(12);
}

#[test]
fn length_8192() {
    against_the_textbook(13);
}

#[test]
fn length_16384() {
    against_the_textbook(14);
}

#[test]
fn kernels_and_the_cpu_agree_and_convolve() {
    let table = table(10);
    let device = Device::new(Mode::Fast, &table);
    let mut random = harness::random(99);
    let (_, a) = values(&table, 2, |q| random.next_u32() % q);
    let (_, b) = values(&table, 2, |q| random.next_u32() % q);
    for radix in radices() {
        let [there_a, there_b] = [&a, &b].map(|x| device.launch(false, radix, &table, x));
        let mut cpu = a.clone();
        table.transform_forward(&mut cpu).unwrap();
        assert_eq!(there_a, cpu);
        assert_eq!(device.launch(true, radix, &table, &there_a), a);
        let q = |i: usize| table.moduli()[(i >> table.log_n()) % table.moduli().len()];
        let product: Vec<u32> = there_a
            .iter()
            .zip(&there_b)
            .enumerate()
            .map(|(i, (&x, &y))| q(i).mul(x, y))
            .collect();
        let product = device.launch(true, radix, &table, &product);
        for ((start, a), b) in (0..)
            .step_by(table.n())
            .zip(a.chunks(table.n()))
            .zip(b.chunks(table.n()))
        {
            let expected = reference::negacyclic_convolution(a, b, q(start).get());
            assert_eq!(product[start..start + table.n()], expected);
        }
    }
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let table = table(10);
    let device = Device::new(Mode::Fast, &table);
    let queue = &device.queue;
    let launch = |words: usize,
                  factors: &Buffer<Shoup>,
                  moduli: &Buffer<Modulus>,
                  primes,
                  grid|
     -> Result<(), LaunchError> {
        let mut data = queue.upload(&vec![0u32; words]);
        let variant = ntt_forward::Variant {
            log_n: 10,
            radix: 4,
        };
        ntt_forward::launch(queue, variant, grid, &mut data, factors, moduli, primes)
    };
    let (factors, moduli) = (&device.forward, &device.moduli);
    assert!(launch(6 << 10, factors, moduli, 3, Grid::x(6)).is_ok());
    // A grid that leaves polynomials out, has too many, or cuts a batch element.
    assert!(refusal(launch(6 << 10, factors, moduli, 3, Grid::x(3))).contains("grid = 3 x 1 x 1"));
    assert!(refusal(launch(6 << 10, factors, moduli, 3, Grid::x(9))).contains("grid = 9 x 1 x 1"));
    assert!(refusal(launch(4 << 10, factors, moduli, 3, Grid::x(4))).contains("grid.x % primes"));
    for grid in [Grid::xy(3, 2), Grid::xyz(3, 1, 2)] {
        assert!(refusal(launch(6 << 10, factors, moduli, 3, grid)).contains("grid.y == 1"));
    }
    assert!(refusal(launch(0, factors, moduli, 0, Grid::x(1))).contains("primes > 0"));
    assert!(
        refusal(launch(6 << 10, factors, moduli, 2, Grid::x(6))).contains("moduli.len() == primes")
    );
    let short = queue.upload(&table.forward()[1..]);
    assert!(refusal(launch(6 << 10, &short, moduli, 3, Grid::x(6))).contains("factors.len()"));
    assert!(
        refusal(launch((6 << 10) + 1, factors, moduli, 3, Grid::x(6)))
            .contains("data.len() = 6145")
    );
}

#[test]
fn grids_are_a_block_for_each_polynomial() {
    assert_eq!(grid(5, 3), Some(Grid::x(15)));
    assert_eq!(grid(0, 3), None);
    assert_eq!(grid(1 << 30, 2), None);
    assert_eq!(grid((1 << 31) - 1, 1), Some(Grid::x((1 << 31) - 1)));
    assert_eq!(grid(usize::MAX, 3), None);
}

#[test]
fn a_table_of_another_length_is_refused() {
    let moduli: Vec<_> = ntt_primes_below(1 << 29, 11).take(1).collect();
    let long = TwiddleTable::new(&moduli, 11).unwrap();
    let device = Device::new(Mode::Fast, &long);
    let mut data = device.queue.upload(&vec![0u32; 1 << 10]);
    let variant = ntt_inverse::Variant {
        log_n: 10,
        radix: 2,
    };
    let result = ntt_inverse::launch(
        &device.queue,
        variant,
        Grid::x(1),
        &mut data,
        &device.inverse,
        &device.moduli,
        1,
    );
    assert!(refusal(result).contains("factors.len() = 2048"));
}
