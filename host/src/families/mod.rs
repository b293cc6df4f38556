//! The families of kernels: one folder for each, with checks, benches and floors as data.
//!
//! Each registers itself: to add a family is to add its folder and the line that makes it a module.
//! [`trial::families`](crate::trial::families) lists them.

pub mod byte_product;
pub mod ceilings;
pub mod gemm;
pub mod gf128;
pub mod montgomery;
pub mod ntt;

#[cfg(test)]
mod tests {
    use crate::backend::{Backend, Mode};
    use crate::check::{Outcome, Subject, run, variants};
    use crate::trial::{Ceiling, ceilings, families};

    #[test]
    fn every_kernel_has_one_trial() {
        let trials = || families().into_iter().flat_map(|family| family.trials);
        let kernels = simt::launch::kernels();
        assert!(!kernels.is_empty());
        for kernel in kernels {
            let found = trials().filter(|trial| std::ptr::eq(trial.kernel(), kernel));
            assert_eq!(found.count(), 1, "trials of {}", kernel.name);
        }
    }

    #[test]
    fn every_ceiling_is_measured_once() {
        for wanted in Ceiling::ALL {
            let found = ceilings().filter(|(ceiling, _)| ceiling == wanted);
            assert_eq!(found.count(), 1, "{wanted:?}");
        }
    }

    #[test]
    fn every_variant_is_right_and_clean_and_gives_the_same_bits_in_both_modes() {
        let fast = Backend::cpu(Mode::Fast);
        for (kernel, variant) in variants("") {
            for seed in [0, u64::MAX] {
                let digest = |subject| match run(&subject, kernel, variant, seed).outcome {
                    Outcome::Passed(digest) => digest,
                    other => panic!("{} with seed {seed}: {other:?}", variant.name),
                };
                assert_eq!(
                    digest(Subject::Backend(&fast)),
                    digest(Subject::Checked),
                    "{} with seed {seed}",
                    variant.name
                );
            }
        }
    }
}
