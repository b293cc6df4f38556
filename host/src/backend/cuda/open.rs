//! Finding the driver and the first GPU, and why there is none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use codegen::image::Image;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::Cuda;
use super::code::Clmad;
use super::context::{Context, message};
use super::stream::Stream;
use crate::backend::info::driver_text;
use crate::backend::{Capability, CudaVersion, DeviceInfo, Error, Kind, MIN_CUDA};

/// Every driver symbol that the `cuda` backend reaches through cudarc.
const SYMBOLS: &[&str] = &[
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Opens the first GPU that the driver shows (CUDA_VISIBLE_DEVICES chooses), to run the kernels
/// of `image`.
pub(in crate::backend) fn open(image: &'static Image) -> Result<Cuda, Error> {
    // SAFETY: loads `libcuda` and drops it again; the library may be loaded more than once.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoDriver);
    }
    require(&["cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"])?;
    let mut number = 0;
    // SAFETY: the pointer is valid for the call, which needs no context.
    let queried = unsafe { sys::cuDriverGetVersion(&raw mut number) }.result();
    queried.map_err(|error| refused("cuDriverGetVersion", error))?;
    let version = CudaVersion {
        major: u32::try_from(number / 1000).unwrap_or(0),
        minor: u32::try_from(number % 1000 / 10).unwrap_or(0),
    };
    if version < MIN_CUDA {
        return Err(Error::DriverTooOld {
            found: format!("knows CUDA {version}"),
        });
    }
    require(SYMBOLS)?;

    result::init().map_err(|error| refused("cuInit", error))?;
    let count = result::device::get_count().map_err(|error| refused("cuDeviceGetCount", error))?;
    if count == 0 {
        return Err(Error::NoGpu);
    }
    let device = result::device::get(0).map_err(|error| refused("cuDeviceGet", error))?;
    let name =
        result::device::get_name(device).map_err(|error| refused("cuDeviceGetName", error))?;
    let attribute = |which| {
        // SAFETY: `device` came from `cuDeviceGet`.
        unsafe { result::device::get_attribute(device, which) }
            .map(|value| u32::try_from(value).unwrap_or(0))
            .map_err(|error| refused("cuDeviceGetAttribute", error))
    };
    use sys::CUdevice_attribute as Attribute;
    let capability = Capability {
        major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    };
    if capability.major < 8 {
        return Err(Error::GpuTooOld {
            name,
            major: capability.major,
            minor: capability.minor,
        });
    }
    let info = DeviceInfo {
        kind: Kind::Cuda,
        name,
        capability: Some(capability),
        driver: Some(driver_text(version)),
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).ok(),
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    };

    // SAFETY: `device` came from `cuDeviceGet`; the context is released when it is dropped.
    let raw = unsafe { result::primary_ctx::retain(device) }.map_err(|error| {
        if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            Error::OutOfMemory {
                place: info.name.clone(),
                wanted: 512 << 20,
                free: 0,
            }
        } else {
            refused("cuDevicePrimaryCtxRetain", error)
        }
    })?;
    let context = Arc::new(Context {
        device,
        raw,
        modules: Mutex::new(Vec::new()),
        last_launch: Mutex::new(None),
    });
    let fill = Stream::new(&context)?;
    Ok(Cuda {
        context,
        image,
        info,
        version,
        fill,
        functions: Mutex::new(HashMap::new()),
        clmad: Mutex::new(Clmad::Untried),
    })
}

/// Fails where `libcuda`, which is present, lacks one of `symbols`.
fn require(symbols: &[&str]) -> Result<(), Error> {
    // SAFETY: `libcuda` is present, so this does not panic.
    let library = unsafe { sys::culib() };
    for &symbol in symbols {
        // SAFETY: the symbol is only looked up, never called through this type.
        if unsafe { library.get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_err() {
            return Err(Error::DriverTooOld {
                found: format!("has no {symbol}"),
            });
        }
    }
    Ok(())
}

/// A driver that is there but does not start.
fn refused(call: &'static str, error: DriverError) -> Error {
    use sys::CUresult as Code;
    let advice = match error.0 {
        Code::CUDA_ERROR_NO_DEVICE => return Error::NoGpu,
        Code::CUDA_ERROR_STUB_LIBRARY => {
            "libcuda is the stub of a toolkit, put the driver's own first in LD_LIBRARY_PATH"
        }
        Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        | Code::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "the kernel module and libcuda are of different releases, reboot or reinstall the driver"
        }
        _ => "check that `nvidia-smi` works, or use `--backend cpu`",
    };
    Error::DriverFailed {
        call,
        message: message(error),
        advice,
    }
}
