//! The device code of a variant: chosen from the image, loaded on first use, and its `clmad` tried
//! before it is trusted.

use std::ffi::CString;
use std::time::Instant;

use codegen::image::{Image, Match};
use cudarc::driver::result;
use cudarc::driver::sys;
use simt::launch::{Grid, Launch, LaunchError, RawArg, VariantInfo};

use super::Cuda;
use super::context::{Module, message};
use crate::backend::device::Device;
use crate::backend::{DeviceInfo, Error, lock};

/// Shared bytes that a block may have without asking for more.
const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

/// What is known of the `clmad` of this GPU and driver.
pub(super) enum Clmad {
    Untried,
    /// The known answer is being computed, by a variant that uses it.
    Trying,
    Right,
    Wrong(String),
}

#[derive(Clone, Copy)]
pub(super) struct Function {
    pub(super) raw: sys::CUfunction,
    clmad: bool,
}

// SAFETY: a function handle is valid in every thread while its module is loaded.
unsafe impl Send for Function {}

impl Cuda {
    /// Whether the image holds any code that the GPU can run.
    pub(in crate::backend) fn has_code(&self) -> Result<(), Error> {
        has_code(self.image, &self.info)
    }

    /// The architecture of the GPU as `GRISTMILL_ARCH` takes it.
    fn arch(&self) -> String {
        self.info.arch().unwrap_or_default()
    }

    /// The function of a variant; loads its module on first use.
    pub(super) fn function(&self, variant: &'static VariantInfo) -> Result<Function, Error> {
        let function = {
            let mut functions = lock(&self.functions);
            if let Some(function) = functions.get(variant.name) {
                *function
            } else {
                let function = self.load(variant)?;
                functions.insert(variant.name, function);
                function
            }
        };
        if function.clmad {
            self.trust_clmad(variant)?;
        }
        Ok(function)
    }

    /// Computes a known answer before the first variant with `clmad` runs: an assembler has been
    /// seen to drop the instruction on some targets, and a driver translates what it has no cubin
    /// for.
    fn trust_clmad(&self, variant: &'static VariantInfo) -> Result<(), Error> {
        {
            let mut state = lock(&self.clmad);
            match &*state {
                Clmad::Untried => *state = Clmad::Trying,
                Clmad::Trying | Clmad::Right => return Ok(()),
                Clmad::Wrong(detail) => {
                    return Err(Error::ClmadBroken {
                        variant: variant.name,
                        detail: detail.clone(),
                    });
                }
            }
        }
        match self.clmad_known_answer() {
            // No code: the image was cut down to other kernels, and there is nothing to try with.
            Ok(()) | Err(Error::NoCode { .. }) => *lock(&self.clmad) = Clmad::Right,
            Err(Error::ClmadBroken { detail, .. }) => {
                *lock(&self.clmad) = Clmad::Wrong(detail.clone());
                return Err(Error::ClmadBroken {
                    variant: variant.name,
                    detail,
                });
            }
            Err(error) => {
                *lock(&self.clmad) = Clmad::Untried;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The product of RFC 8452, section 3.
    fn clmad_known_answer(&self) -> Result<(), Error> {
        use gpu_kernels::gf128::{Polyval, method, polyval_mul};
        let a = Polyval::from_bytes(0x66e9_4bd4_ef8a_2c3b_884c_fa59_ca34_2b2e_u128.to_be_bytes());
        let b = Polyval::from_bytes((0xff_u128 << 120).to_be_bytes());
        let expected =
            Polyval::from_bytes(0xebe5_6340_1e7e_91ea_3ad6_426b_8140_c394_u128.to_be_bytes());
        let variant = polyval_mul::Variant {
            method: method::SCHOOLBOOK,
        };
        let Some(variant) = variant.info() else {
            return Ok(());
        };

        let stream = self.stream()?;
        let memory = || self.allocate(size_of::<Polyval>(), true);
        let (from_a, from_b, to) = (memory()?, memory()?, memory()?);
        self.upload(&stream, (&from_a, 0), bytemuck::bytes_of(&a))?;
        self.upload(&stream, (&from_b, 0), bytemuck::bytes_of(&b))?;
        let raw = |memory| RawArg::Buffer(self.raw(memory, 0));
        let launch = Launch {
            kernel: &polyval_mul::KERNEL,
            variant,
            grid: Grid::x(1),
            args: &[
                raw(&from_a),
                raw(&from_b),
                raw(&to),
                RawArg::Scalar(&1u64.to_ne_bytes()),
            ],
        };
        launch.validate()?;
        let function = self.function(variant)?;
        let launched = self.enqueue(function, &stream, &launch);
        self.context.check("cuLaunchKernel", launched)?;
        let mut found = Polyval::default();
        self.download(&stream, (&to, 0), bytemuck::bytes_of_mut(&mut found))?;
        if found == expected {
            Ok(())
        } else {
            Err(Error::ClmadBroken {
                variant: variant.name,
                detail: format!(
                    "`{}` gave {:032x} for {:032x}",
                    variant.name,
                    found.to_u128(),
                    expected.to_u128()
                ),
            })
        }
    }

    fn load(&self, variant: &'static VariantInfo) -> Result<Function, Error> {
        let started = Instant::now();
        let code = Code::of(self.image, variant.name, &self.info)?;
        self.context.bind()?;
        // SAFETY: a cubin as ptxas wrote it, or PTX ending in a null byte; the driver copies it.
        let loaded = unsafe { result::module::load_data(code.bytes.as_ptr().cast()) };
        let module = loaded.map_err(|error| Error::ModuleRefused {
            variant: variant.name,
            what: code.what.clone(),
            driver: self.version.to_string(),
            arch: self.arch(),
            message: message(error),
        })?;
        lock(&self.context.modules).push(Module(module));
        let name = CString::new(variant.name).map_err(|_| Error::Cuda {
            call: "cuModuleGetFunction",
            kernel: Some(variant.name),
            message: "the name holds a null byte".into(),
        })?;
        // SAFETY: `module` was just loaded and stays loaded.
        let raw = unsafe { result::module::get_function(module, name) };
        let raw = raw.map_err(|error| Error::Cuda {
            call: "cuModuleGetFunction",
            kernel: Some(variant.name),
            message: message(error),
        })?;
        self.allow_shared(variant, raw)?;
        tracing::debug!(variant = variant.name, code = %code.what, elapsed = ?started.elapsed(), "loaded");
        Ok(Function {
            raw,
            clmad: code.clmad,
        })
    }

    /// Asks for the dynamic shared memory of a variant where it is more than the default.
    fn allow_shared(
        &self,
        variant: &'static VariantInfo,
        function: sys::CUfunction,
    ) -> Result<(), Error> {
        use sys::CUfunction_attribute_enum as Attribute;
        let failed = |call, error| Error::Cuda {
            call,
            kernel: Some(variant.name),
            message: message(error),
        };
        // SAFETY: `function` is of a loaded module.
        let fixed = unsafe {
            result::function::get_function_attribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            )
        }
        .map_err(|error| failed("cuFuncGetAttribute", error))?;
        let fixed = u32::try_from(fixed).unwrap_or(0);
        let all = u64::from(fixed) + u64::from(variant.shared_bytes);
        if all > u64::from(self.info.shared_bytes) {
            return Err(Error::Launch(LaunchError::Refused {
                kernel: variant.name,
                reason: format!(
                    "it needs {all} bytes of shared memory and {} has {} a block",
                    self.info.name, self.info.shared_bytes
                ),
            }));
        }
        if all <= u64::from(DEFAULT_SHARED_BYTES) {
            return Ok(());
        }
        // SAFETY: as above; the value is within the device's limit.
        unsafe {
            result::function::set_function_attribute(
                function,
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                variant.shared_bytes as i32,
            )
        }
        .map_err(|error| failed("cuFuncSetAttribute", error))
    }
}

/// Device code of one variant, ready to load.
struct Code {
    /// A cubin, or PTX ending in a null byte.
    bytes: Vec<u8>,
    /// `the sm_90a cubin` or `the sm_80 PTX`.
    what: String,
    clmad: bool,
}

impl Code {
    fn of(image: &Image, variant: &'static str, device: &DeviceInfo) -> Result<Self, Error> {
        let arch = device.arch().unwrap_or_default();
        let selected = device
            .capability
            .and_then(|capability| image.select(variant, capability));
        match selected {
            Some(Match::Cubin(entry)) => Ok(Self {
                bytes: entry.cubin()?,
                what: format!("the {} cubin", entry.arch),
                clmad: entry.facts.clmad > 0,
            }),
            Some(Match::Ptx(entry)) => {
                let mut bytes = entry.ptx()?.into_bytes();
                bytes.push(0);
                Ok(Self {
                    bytes,
                    what: format!("the {} PTX", entry.arch),
                    clmad: entry.facts.clmad > 0,
                })
            }
            None if image.is_empty() => Err(Error::EmptyImage { arch }),
            None => {
                let held: Vec<_> = image
                    .variant(variant)
                    .iter()
                    .map(|entry| entry.arch.name())
                    .collect();
                Err(Error::NoCode {
                    what: format!("`{variant}`"),
                    held: if held.is_empty() {
                        "no architecture".into()
                    } else {
                        held.join(", ")
                    },
                    arch,
                })
            }
        }
    }
}

fn has_code(image: &Image, device: &DeviceInfo) -> Result<(), Error> {
    let arch = device.arch().unwrap_or_default();
    if image.is_empty() {
        return Err(Error::EmptyImage { arch });
    }
    let runs = device.capability.is_some_and(|capability| {
        image
            .archs()
            .iter()
            .any(|arch| arch.cubin_runs_on(capability) || arch.ptx_runs_on(capability))
    });
    if runs {
        return Ok(());
    }
    let held: Vec<_> = image.archs().iter().map(|arch| arch.name()).collect();
    Err(Error::NoCode {
        what: "GPU code".into(),
        held: held.join(", "),
        arch,
    })
}
