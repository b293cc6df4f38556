//! What a backend promises, tried on any backend: memory, views, streams, events, graphs,
//! refusals.
//!
//! The unit tests run it on the emulator, `gristmill kernels check` on whatever it was asked for.

use gpu_kernels::ceilings::ceiling_copy;
use simt::U32x4;
use simt::launch::{DeviceMut, DeviceRef, Grid, LaunchError, Queue};

use crate::backend::{Backend, Error, Mode};
use crate::trial::{Inputs, TrialError, compare};

/// One promise.
pub struct Promise {
    /// What it is about.
    pub name: &'static str,
    /// Tries it.
    pub run: fn(&Backend) -> Result<(), TrialError>,
}

/// All promises.
pub const PROMISES: &[Promise] = &[
    Promise {
        name: "memory_comes_back_as_it_went",
        run: memory,
    },
    Promise {
        name: "views_copies_and_fills_touch_their_range_alone",
        run: ranges,
    },
    Promise {
        name: "a_stream_is_ordered_and_events_order_two",
        run: streams,
    },
    Promise {
        name: "a_graph_runs_what_was_recorded_each_time",
        run: graphs,
    },
    Promise {
        name: "memory_outlives_the_launch_that_uses_it",
        run: dropped,
    },
    Promise {
        name: "threads_share_a_backend",
        run: threads,
    },
    Promise {
        name: "what_does_not_fit_is_refused_and_harms_nothing",
        run: refusals,
    },
];

fn vectors(label: &str, len: usize) -> Vec<U32x4> {
    Inputs::new(label, 0).uniform(len)
}

/// The kernel that the promises are tried with: copies all of `source`.
fn launch_copy(
    queue: &impl Queue,
    source: &impl DeviceRef<U32x4>,
    target: &mut impl DeviceMut<U32x4>,
) -> Result<(), LaunchError> {
    let n = source.len() as u64;
    ceiling_copy::launch(queue, ceiling_copy::Variant, Grid::x(8), source, target, n)
}

fn wrong(sentence: &str) -> TrialError {
    TrialError::Other(sentence.to_owned())
}

fn memory(backend: &Backend) -> Result<(), TrialError> {
    for len in [0, 1, 3, 255, 4097, 1 << 18] {
        let bytes: Vec<u8> = Inputs::new("memory", len as u64).bytes(len);
        let buffer = backend.upload(&bytes)?;
        compare("uploaded", &backend.download(&buffer)?, &bytes)?;
        let mut zeroes = backend.alloc_zeroed::<u8>(len)?;
        compare("zeroed", &backend.download(&zeroes)?, &vec![0; len])?;
        backend.write(&mut zeroes, &bytes)?;
        compare("written", &backend.download(&zeroes)?, &bytes)?;
        let mut pinned = backend.pinned::<u8>(len)?;
        compare("pinned", &pinned, &vec![0; len])?;
        let stream = backend.stream()?;
        stream.download_into(&buffer, &mut pinned)?;
        compare("downloaded", &pinned, &bytes)?;
        pinned.reverse();
        stream.upload(&mut zeroes, &pinned)?;
        pinned.reverse();
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        compare("reversed", &stream.download(&zeroes)?, &reversed)?;
    }
    Ok(())
}

fn ranges(backend: &Backend) -> Result<(), TrialError> {
    let (source, mut expected) = (vectors("source", 1000), vectors("target", 1000));
    let device = backend.upload(&source)?;
    let mut target = backend.upload(&expected)?;
    let stream = backend.stream()?;
    stream.copy(&mut target.view_mut(17..350)?, &device.view(100..433)?)?;
    stream.zero(&mut target.view_mut(300..400)?)?;
    launch_copy(
        &stream,
        &device.view(5..6)?,
        &mut target.view_mut(999..1000)?,
    )?;
    launch_copy(
        &stream,
        &device.view(500..900)?,
        &mut target.view_mut(450..850)?,
    )?;
    expected[17..350].copy_from_slice(&source[100..433]);
    expected[300..400].fill(U32x4([0; 4]));
    expected[999] = source[5];
    expected[450..850].copy_from_slice(&source[500..900]);
    compare("target", &stream.download(&target)?, &expected)?;
    compare(
        "a view of it",
        &stream.download(&target.view(340..360)?)?,
        &expected[340..360],
    )
}

fn streams(backend: &Backend) -> Result<(), TrialError> {
    const LEN: usize = 1 << 14;
    let (first, second) = (backend.stream()?, backend.stream()?);
    let (start, done) = (backend.event()?, backend.event()?);
    let mut source = backend.alloc_zeroed::<U32x4>(LEN)?;
    let mut middle = backend.alloc_zeroed::<U32x4>(LEN)?;
    let mut target = backend.alloc_zeroed::<U32x4>(LEN)?;
    for round in ["first", "second", "third"] {
        let data = vectors(round, LEN);
        first.upload(&mut source, &data)?;
        first.record(&start)?;
        for _ in 0..10 {
            launch_copy(&first, &source, &mut middle)?;
        }
        first.record(&done)?;
        second.wait(&done)?;
        launch_copy(&second, &middle, &mut target)?;
        compare("target", &second.download(&target)?, &data)?;
        if done.elapsed_since(&start)?.as_secs() > 60 {
            return Err(wrong("ten copies of 256 KiB took more than a minute"));
        }
    }
    match backend.event()?.elapsed_since(&start) {
        Err(Error::NotRecorded) => Ok(()),
        other => Err(TrialError::Other(format!(
            "an event that was never recorded gave {other:?}"
        ))),
    }
}

fn graphs(backend: &Backend) -> Result<(), TrialError> {
    const LEN: usize = 3000;
    let mut source = backend.alloc_zeroed::<U32x4>(LEN)?;
    let mut middle = backend.alloc_zeroed::<U32x4>(LEN)?;
    let mut target = backend.alloc_zeroed::<U32x4>(LEN)?;
    let graph = backend.graph(|queue| {
        launch_copy(queue, &source, &mut middle)?;
        launch_copy(queue, &middle, &mut target)
    })?;
    // The recording ran nothing, and memory that only the graph uses stays.
    compare(
        "recorded",
        &backend.download(&target)?,
        &vec![U32x4([0; 4]); LEN],
    )?;
    drop(middle);
    let stream = backend.stream()?;
    for round in ["first", "second"] {
        let data = vectors(round, LEN);
        stream.upload(&mut source, &data)?;
        graph.launch(&stream)?;
        compare("target", &stream.download(&target)?, &data)?;
    }
    Ok(())
}

fn dropped(backend: &Backend) -> Result<(), TrialError> {
    const LEN: usize = 1 << 16;
    let data = vectors("data", LEN);
    let mut target = backend.alloc_zeroed::<U32x4>(LEN)?;
    let stream = backend.stream()?;
    for _ in 0..4 {
        let source = backend.upload(&data)?;
        stream.zero(&mut target)?;
        launch_copy(&stream, &source, &mut target)?;
        drop(source);
        // What comes next may get the same memory.
        let next = backend.alloc_zeroed::<U32x4>(LEN)?;
        compare("target", &stream.download(&target)?, &data)?;
        drop(next);
    }
    launch_copy(&stream, &backend.upload(&data)?, &mut target)?;
    drop(stream);
    compare("target", &backend.download(&target)?, &data)
}

fn threads(backend: &Backend) -> Result<(), TrialError> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = ["a", "b", "c", "d"]
            .map(|label| {
                scope.spawn(move || {
                    let data = vectors(label, 5000);
                    let source = backend.upload(&data)?;
                    let mut target = backend.alloc_zeroed(data.len())?;
                    let stream = backend.stream()?;
                    for _ in 0..5 {
                        launch_copy(&stream, &source, &mut target)?;
                    }
                    compare(label, &stream.download(&target)?, &data)
                })
            })
            .into();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| Err(wrong("a thread panicked")))
        })
    })
}

fn refusals(backend: &Backend) -> Result<(), TrialError> {
    let data = vectors("data", 100);
    let source = backend.upload(&data)?;
    let mut target = backend.alloc_zeroed::<U32x4>(100)?;

    let other = Backend::cpu(Mode::Fast);
    let mut foreign = other.alloc_zeroed::<U32x4>(100)?;
    let mut short = backend.alloc_zeroed::<U32x4>(99)?;
    let empty = ceiling_copy::launch(
        backend,
        ceiling_copy::Variant,
        Grid::x(0),
        &source,
        &mut target,
        100,
    );
    for (what, result) in [
        (
            "memory of another backend",
            launch_copy(backend, &source, &mut foreign),
        ),
        (
            "too short a buffer",
            launch_copy(backend, &source, &mut short),
        ),
        ("an empty grid", empty),
    ] {
        if !matches!(result, Err(LaunchError::Refused { .. })) {
            return Err(TrialError::Other(format!("{what} gave {result:?}")));
        }
    }
    let total = backend.memory()?.total as usize;
    match backend.alloc::<u8>(total + (1 << 30)).map(drop) {
        Err(Error::OutOfMemory { .. }) => {}
        other => {
            return Err(TrialError::Other(format!(
                "more memory than there is gave {other:?}"
            )));
        }
    }
    if !matches!(target.view(50..101), Err(Error::Range { .. })) {
        return Err(wrong("a view past the end was given"));
    }

    launch_copy(backend, &source, &mut target)?;
    compare("target", &backend.download(&target)?, &data)?;
    compare(
        "short",
        &backend.download(&short)?,
        &vec![U32x4([0; 4]); 99],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_keeps_every_promise_in_both_modes() {
        for backend in [
            Backend::cpu(Mode::Fast),
            Backend::cpu(Mode::Checked { seed: 3 }),
        ] {
            for promise in PROMISES {
                let result = (promise.run)(&backend);
                assert!(result.is_ok(), "{}: {result:?}", promise.name);
            }
        }
    }
}
