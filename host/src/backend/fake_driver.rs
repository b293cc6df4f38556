//! A `libcuda.so.1` of the tests' own: the driver calls that the `cuda` backend makes, on the
//! memory of the machine.
//!
//! Not a module of the crate: tests build it by `rustc --crate-type cdylib` and put it first in
//! LD_LIBRARY_PATH. It is stricter than a driver where that finds mistakes: every call needs a
//! current context, every handle must be alive, every copy must stay inside one allocation,
//! nothing may be synchronised during a capture, dynamic shared memory above 48 KiB must have
//! been asked for, and leaks can be counted (`fake_live`).
//!
//! A "cubin" here is `FAKE` and the name of its function. Functions whose name starts with
//! `scale` compute `c[i] += factor * a[i]`; `ceiling_copy` copies; `polyval_mul` gives the product of RFC 8452, section
//! 3; one that starts with `fault` makes what comes next fail, as a wild access does; `scale_no_graph` makes a capture
//! invalid;
//! others do nothing.
//!
//! | variable | meaning | default |
//! | --- | --- | --- |
//! | `FAKE_CUDA_VERSION` | what `cuDriverGetVersion` says | 13000 |
//! | `FAKE_CUDA_INIT` | what `cuInit` returns | 0 |
//! | `FAKE_CUDA_DEVICES` | number of GPUs | 1 |
//! | `FAKE_CUDA_CAPABILITY` | compute capability, times ten | 90 |
//! | `FAKE_CUDA_MEMORY` | bytes of device memory | 2^30 |
//! | `FAKE_CUDA_CLMAD` | 0: `polyval_mul` does nothing | 1 |

#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks
)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Instant;

type Handle = usize;
type Address = u64;

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_IMAGE: u32 = 200;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const NOT_FOUND: u32 = 500;
const ILLEGAL_ADDRESS: u32 = 700;
const CAPTURE_UNSUPPORTED: u32 = 900;
const CAPTURE_INVALIDATED: u32 = 901;

const CONTEXT: Handle = 0xc0de;

struct LaunchRecord {
    function: Handle,
    arguments: Vec<u64>,
}

struct Function {
    name: String,
    shared_allowed: u32,
}

#[derive(Default)]
struct Driver {
    next: Handle,
    contexts: usize,
    memory: BTreeMap<Address, Box<[u64]>>,
    used: u64,
    pinned: BTreeMap<Handle, Box<[u64]>>,
    streams: BTreeMap<Handle, Option<Vec<LaunchRecord>>>,
    events: BTreeMap<Handle, Option<Instant>>,
    modules: BTreeMap<Handle, String>,
    functions: BTreeMap<Handle, Function>,
    graphs: BTreeMap<Handle, Vec<LaunchRecord>>,
    executables: BTreeMap<Handle, Vec<LaunchRecord>>,
    faulted: bool,
    /// Streams whose capture has become invalid.
    invalid: BTreeSet<Handle>,
}

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(Mutex::default);

thread_local! {
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn raw() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap()
}

/// The driver, for a call that needs a current context.
fn driver() -> Result<MutexGuard<'static, Driver>, u32> {
    let driver = raw();
    if CURRENT.get() == CONTEXT && driver.contexts > 0 {
        Ok(driver)
    } else {
        Err(INVALID_CONTEXT)
    }
}

fn code(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(0)
}

impl Driver {
    fn handle(&mut self) -> Handle {
        self.next += 1;
        0x1000 + self.next * 16
    }

    /// The bytes of one live allocation from `address` on.
    fn bytes(&mut self, address: Address, len: usize) -> Result<*mut u8, u32> {
        let (base, words) = self
            .memory
            .range_mut(..=address)
            .next_back()
            .ok_or(ILLEGAL_ADDRESS)?;
        let offset = (address - base) as usize;
        if offset + len > words.len() * 8 {
            return Err(ILLEGAL_ADDRESS);
        }
        Ok(unsafe { words.as_mut_ptr().cast::<u8>().add(offset) })
    }

    fn stream(&mut self, stream: Handle) -> Result<&mut Option<Vec<LaunchRecord>>, u32> {
        self.streams.get_mut(&stream).ok_or(INVALID_HANDLE)
    }

    /// A stream that is not being captured.
    fn running(&mut self, stream: Handle) -> Result<(), u32> {
        match self.stream(stream)? {
            Some(_) => Err(CAPTURE_UNSUPPORTED),
            None => Ok(()),
        }
    }

    fn settled(&self) -> Result<(), u32> {
        if self.faulted {
            Err(ILLEGAL_ADDRESS)
        } else {
            Ok(())
        }
    }

    fn execute(&mut self, launch: &LaunchRecord) -> Result<(), u32> {
        let name = self
            .functions
            .get(&launch.function)
            .ok_or(INVALID_HANDLE)?
            .name
            .clone();
        if name.starts_with("fault") {
            self.faulted = true;
        }
        if name.starts_with("scale") {
            let [a, c, factor, n] = launch.arguments[..] else {
                return Err(INVALID_VALUE);
            };
            let (factor, n) = (factor as u32, n as u32 as usize);
            let a: *mut u32 = self.bytes(a, n * 4)?.cast();
            let c: *mut u32 = self.bytes(c, n * 4)?.cast();
            for i in 0..n {
                unsafe {
                    let sum = (*c.add(i)).wrapping_add((*a.add(i)).wrapping_mul(factor));
                    *c.add(i) = sum;
                }
            }
        }
        if name == "ceiling_copy" {
            let [from, to, n] = launch.arguments[..] else {
                return Err(INVALID_VALUE);
            };
            let from = self.bytes(from, n as usize * 16)?;
            let to = self.bytes(to, n as usize * 16)?;
            unsafe { std::ptr::copy_nonoverlapping(from, to, n as usize * 16) };
        }
        if name.starts_with("polyval_mul") && setting("FAKE_CUDA_CLMAD", 1) == 1 {
            let [_, _, c, 1] = launch.arguments[..] else {
                return Err(INVALID_VALUE);
            };
            let c: *mut u128 = self.bytes(c, 16)?.cast();
            let product = 0xebe5_6340_1e7e_91ea_3ad6_426b_8140_c394_u128.swap_bytes();
            unsafe { c.write_unaligned(product) };
        }
        Ok(())
    }
}

/// Objects that were made and not yet destroyed, the context among them.
#[unsafe(no_mangle)]
pub extern "C" fn fake_live() -> usize {
    let driver = raw();
    driver.contexts
        + driver.memory.len()
        + driver.pinned.len()
        + driver.streams.len()
        + driver.events.len()
        + driver.modules.len()
        + driver.graphs.len()
        + driver.executables.len()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(_: u32, text: *mut *const c_char) -> u32 {
    unsafe { *text = c"CUDA_ERROR_OF_THE_FAKE".as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(_: u32, text: *mut *const c_char) -> u32 {
    unsafe { *text = c"said the fake driver".as_ptr() };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    unsafe { *version = setting("FAKE_CUDA_VERSION", 13000) as c_int };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_: c_uint) -> u32 {
    setting("FAKE_CUDA_INIT", 0) as u32
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    unsafe { *count = setting("FAKE_CUDA_DEVICES", 1) as c_int };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32 {
    if ordinal != 0 {
        return 101;
    }
    unsafe { *device = 7 };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> u32 {
    let text = c"Fake GPU".to_bytes_with_nul();
    if device != 7 || text.len() > len as usize {
        return INVALID_VALUE;
    }
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: u32, device: c_int) -> u32 {
    let capability = setting("FAKE_CUDA_CAPABILITY", 90) as c_int;
    let found = match which {
        13 => 1_980_000,
        16 => 132,
        38 => 60 << 20,
        75 => capability / 10,
        76 => capability % 10,
        97 => 227 << 10,
        _ => return INVALID_VALUE,
    };
    if device != 7 {
        return 101;
    }
    unsafe { *value = found };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32 {
    if device != 7 {
        return 101;
    }
    raw().contexts += 1;
    unsafe { *context = CONTEXT };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(_: c_int) -> u32 {
    raw().contexts -= 1;
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    if context != CONTEXT {
        return INVALID_CONTEXT;
    }
    CURRENT.set(context);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> u32 {
    code(driver().and_then(|driver| {
        if driver.streams.values().any(Option::is_some) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        driver.settled()
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    code(driver().map(|driver| {
        let all = setting("FAKE_CUDA_MEMORY", 1 << 30);
        unsafe {
            *free = (all - driver.used) as usize;
            *total = all as usize;
        }
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut Address, bytes: usize) -> u32 {
    code(driver().and_then(|mut driver| {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if driver.used + bytes as u64 > setting("FAKE_CUDA_MEMORY", 1 << 30) {
            return Err(OUT_OF_MEMORY);
        }
        driver.used += (bytes.div_ceil(8) * 8) as u64;
        // Not zero, so that a missing fill is seen.
        let words = vec![0xa5a5_a5a5_a5a5_a5a5; bytes.div_ceil(8)].into_boxed_slice();
        let at = words.as_ptr() as Address;
        driver.memory.insert(at, words);
        unsafe { *address = at };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: Address) -> u32 {
    code(driver().and_then(|mut driver| {
        let words = driver.memory.remove(&address).ok_or(INVALID_VALUE)?;
        driver.used -= (words.len() * 8) as u64;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(pointer: *mut Handle, bytes: usize, flags: c_uint) -> u32 {
    code(driver().and_then(|mut driver| {
        // Write-combined memory is slow to read.
        if flags & 4 != 0 {
            return Err(INVALID_VALUE);
        }
        let words = vec![0xa5a5_a5a5_a5a5_a5a5; bytes.div_ceil(8)].into_boxed_slice();
        let at = words.as_ptr() as Handle;
        driver.pinned.insert(at, words);
        unsafe { *pointer = at };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(pointer: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.pinned.remove(&pointer).ok_or(INVALID_VALUE)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(
    address: Address,
    byte: u8,
    bytes: usize,
    stream: Handle,
) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        let pointer = driver.bytes(address, bytes)?;
        unsafe { pointer.write_bytes(byte, bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: Address,
    from: *const u8,
    bytes: usize,
    stream: Handle,
) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        let to = driver.bytes(to, bytes)?;
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut u8,
    from: Address,
    bytes: usize,
    stream: Handle,
) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        let from = driver.bytes(from, bytes)?;
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: Address,
    from: Address,
    bytes: usize,
    stream: Handle,
) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        let from = driver.bytes(from, bytes)?;
        let to = driver.bytes(to, bytes)?;
        unsafe { std::ptr::copy(from, to, bytes) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_char) -> u32 {
    code(driver().and_then(|mut driver| {
        let text = unsafe { CStr::from_ptr(image) };
        let name = text
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("FAKE "))
            .ok_or(INVALID_IMAGE)?;
        let handle = driver.handle();
        driver.modules.insert(handle, name.to_owned());
        unsafe { *module = handle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.modules.remove(&module).ok_or(INVALID_HANDLE)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> u32 {
    code(driver().and_then(|mut driver| {
        let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap();
        if driver.modules.get(&module).ok_or(INVALID_HANDLE)? != name {
            return Err(NOT_FOUND);
        }
        let handle = driver.handle();
        let made = Function {
            name: name.to_owned(),
            shared_allowed: 48 << 10,
        };
        driver.functions.insert(handle, made);
        unsafe { *function = handle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    which: u32,
    function: Handle,
) -> u32 {
    code(driver().and_then(|driver| {
        driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
        if which != 1 {
            return Err(INVALID_VALUE);
        }
        unsafe { *value = 1024 };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: Handle, which: u32, value: c_int) -> u32 {
    code(driver().and_then(|mut driver| {
        let function = driver.functions.get_mut(&function).ok_or(INVALID_HANDLE)?;
        if which != 8 || value as u32 + 1024 > 227 << 10 {
            return Err(INVALID_VALUE);
        }
        function.shared_allowed = value as u32 + 1024;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Handle,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> u32 {
    code(driver().and_then(|mut driver| {
        let known = driver.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let blocks = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        if blocks.contains(&0)
            || block_x * block_y * block_z > 1024
            || shared + 1024 > known.shared_allowed
            || !extra.is_null()
        {
            return Err(INVALID_VALUE);
        }
        // Two buffers and two words.
        let mut copied = Vec::new();
        if known.name.starts_with("scale") {
            unsafe {
                copied.push(*(*arguments).cast::<u64>());
                copied.push(*(*arguments.add(1)).cast::<u64>());
                copied.push((*arguments.add(2)).cast::<u32>().read_unaligned().into());
                copied.push((*arguments.add(3)).cast::<u32>().read_unaligned().into());
            }
        }
        // Two buffers and a length.
        if known.name == "ceiling_copy" {
            copied = (0..3)
                .map(|i| unsafe { (*arguments.add(i)).cast::<u64>().read_unaligned() })
                .collect();
        }
        // Three buffers and a length.
        if known.name.starts_with("polyval_mul") {
            copied = (0..4)
                .map(|i| unsafe { (*arguments.add(i)).cast::<u64>().read_unaligned() })
                .collect();
        }
        let launch = LaunchRecord {
            function,
            arguments: copied,
        };
        driver.settled()?;
        let invalid = driver.functions[&function].name == "scale_no_graph";
        if invalid && driver.stream(stream)?.is_some() {
            driver.invalid.insert(stream);
        }
        match driver.stream(stream)? {
            Some(captured) => captured.push(launch),
            None => driver.execute(&launch)?,
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> u32 {
    code(driver().and_then(|mut driver| {
        if flags != 1 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.handle();
        driver.streams.insert(handle, None);
        unsafe { *stream = handle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.streams.remove(&stream).ok_or(INVALID_HANDLE)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        driver.settled()
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        driver.events.get(&event).ok_or(INVALID_HANDLE)?;
        if flags == 0 {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        if mode > 2 {
            return Err(INVALID_VALUE);
        }
        *driver.stream(stream)? = Some(Vec::new());
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut u32) -> u32 {
    code(driver().and_then(|mut driver| {
        let capturing = driver.stream(stream)?.is_some();
        unsafe {
            *status = match (capturing, driver.invalid.contains(&stream)) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => 2,
            };
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        let captured = driver.stream(stream)?.take().ok_or(INVALID_VALUE)?;
        if driver.invalid.remove(&stream) {
            return Err(CAPTURE_INVALIDATED);
        }
        let handle = driver.handle();
        driver.graphs.insert(handle, captured);
        unsafe { *graph = handle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut Handle,
    graph: Handle,
    flags: u64,
) -> u32 {
    code(driver().and_then(|mut driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let launches = driver.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        let launches = launches
            .iter()
            .map(|launch| LaunchRecord {
                function: launch.function,
                arguments: launch.arguments.clone(),
            })
            .collect();
        let handle = driver.handle();
        driver.executables.insert(handle, launches);
        unsafe { *executable = handle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.graphs.remove(&graph).ok_or(INVALID_HANDLE)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(executable: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver
            .executables
            .remove(&executable)
            .ok_or(INVALID_HANDLE)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        let launches = driver
            .executables
            .remove(&executable)
            .ok_or(INVALID_HANDLE)?;
        let result = launches
            .iter()
            .try_for_each(|launch| driver.execute(launch));
        driver.executables.insert(executable, launches);
        result
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> u32 {
    code(driver().and_then(|mut driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.handle();
        driver.events.insert(handle, None);
        unsafe { *event = handle };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.events.remove(&event).ok_or(INVALID_HANDLE)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> u32 {
    code(driver().and_then(|mut driver| {
        driver.running(stream)?;
        *driver.events.get_mut(&event).ok_or(INVALID_HANDLE)? = Some(Instant::now());
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: Handle) -> u32 {
    code(driver().and_then(|driver| {
        driver.events.get(&event).ok_or(INVALID_HANDLE)?;
        driver.settled()
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(
    milliseconds: *mut f32,
    start: Handle,
    end: Handle,
) -> u32 {
    code(driver().and_then(|driver| {
        let at = |event| driver.events.get(&event).copied().flatten();
        let (Some(start), Some(end)) = (at(start), at(end)) else {
            return Err(INVALID_HANDLE);
        };
        unsafe { *milliseconds = end.saturating_duration_since(start).as_secs_f32() * 1e3 };
        Ok(())
    }))
}
