//! `gristmill info`.

use serde::Serialize;

use super::{Failure, Output};
use crate::backend::{self, Backend, Bytes, Choice, DeviceInfo, Kind};
use crate::{check, image};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    version: &'static str,
    commit: &'static str,
    /// The backend that `auto` takes.
    backend: String,
    /// Why `auto` does not take the GPU.
    backend_reason: Option<String>,
    gpu: Option<Device>,
    /// Why there is no GPU.
    gpu_reason: Option<String>,
    cpu: Device,
    image: ImageInfo,
    kernels: usize,
    variants: usize,
}

#[derive(Serialize)]
struct Device {
    name: String,
    /// Compute capability as `9.0`.
    capability: Option<String>,
    /// What `GRISTMILL_ARCH` takes for it.
    arch: Option<String>,
    driver: Option<String>,
    l2_bytes: u64,
    multiprocessors: u32,
    clock_khz: Option<u32>,
    memory_free: Option<u64>,
    memory_total: Option<u64>,
}

impl Device {
    fn new(info: &DeviceInfo, memory: Option<backend::MemoryInfo>) -> Self {
        Self {
            name: info.name.clone(),
            capability: info.capability.map(|capability| capability.to_string()),
            arch: info.arch(),
            driver: info.driver.clone(),
            l2_bytes: info.l2_bytes,
            multiprocessors: info.multiprocessors,
            clock_khz: info.clock_khz,
            memory_free: memory.map(|memory| memory.free),
            memory_total: memory.map(|memory| memory.total),
        }
    }
}

#[derive(Serialize)]
struct ImageInfo {
    bytes: usize,
    archs: Vec<String>,
    variants: usize,
    rustc: Option<String>,
    ptxas: Option<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut Output<'_>) -> Result<(), Failure> {
    let info = gather()?;
    if arguments.json {
        out.json(&info)
    } else {
        print(&info, out)
    }
}

fn gather() -> Result<Info, Failure> {
    let image = image::embedded().map_err(Failure::failed)?;
    let backend = Backend::open(Choice::Auto).map_err(Failure::failed)?;
    let cpu = Backend::open(Choice::Cpu).map_err(Failure::failed)?;
    let (gpu, gpu_reason) = match backend.kind() {
        Kind::Cuda => (
            Some(Device::new(backend.info(), backend.memory().ok())),
            None,
        ),
        // The GPU may be there without code for it in this binary.
        Kind::Cpu => match backend::probe_gpu() {
            Ok((info, memory)) => (Some(Device::new(&info, Some(memory))), None),
            Err(error) => (None, Some(error.to_string())),
        },
    };
    let mut held: Vec<&str> = image
        .entries()
        .iter()
        .map(|entry| &*entry.variant)
        .collect();
    held.dedup();
    let said = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(Info {
        version: env!("CARGO_PKG_VERSION"),
        commit: image::COMMIT,
        backend: backend.kind().to_string(),
        backend_reason: backend.passed_over().map(ToString::to_string),
        gpu,
        gpu_reason,
        cpu: Device::new(cpu.info(), cpu.memory().ok()),
        image: ImageInfo {
            bytes: image::embedded_bytes(),
            archs: image.archs().iter().map(ToString::to_string).collect(),
            variants: held.len(),
            rustc: said(image.rustc()),
            ptxas: said(image.ptxas()),
        },
        kernels: simt::launch::kernels().len(),
        variants: check::variants("").len(),
    })
}

fn print(info: &Info, out: &mut Output<'_>) -> Result<(), Failure> {
    let mut row = |name: &str, text: String| out.line(format_args!("{name:<9}{text}"));
    row(
        "version",
        format!("{}, commit {}", info.version, info.commit),
    )?;
    row(
        "backend",
        match &info.backend_reason {
            Some(reason) => format!("{} ({reason})", info.backend),
            None => info.backend.clone(),
        },
    )?;
    if let Some(gpu) = &info.gpu {
        row("gpu", device(gpu, "multiprocessors", "L2"))?;
        if let Some(driver) = &gpu.driver {
            row("driver", driver.clone())?;
        }
    }
    row("cpu", device(&info.cpu, "threads", "last-level cache"))?;
    row(
        "image",
        if info.image.variants == 0 {
            let arch = info.gpu.as_ref().and_then(|gpu| gpu.arch.as_deref());
            format!(
                "empty: `cargo xtask setup`, then `GRISTMILL_ARCH={} cargo build --release`, puts GPU code in",
                arch.unwrap_or("sm_90a")
            )
        } else {
            format!(
                "{} variants for {} ({}), rustc {}, ptxas {}",
                info.image.variants,
                info.image.archs.join(", "),
                Bytes(info.image.bytes as u64),
                info.image.rustc.as_deref().unwrap_or("unknown"),
                info.image.ptxas.as_deref().unwrap_or("unknown")
            )
        },
    )?;
    row(
        "kernels",
        format!("{}, {} variants", info.kernels, info.variants),
    )
}

fn device(device: &Device, units: &str, cache: &str) -> String {
    let mut text = device.name.clone();
    let mut add = |part: String| {
        text.push_str(", ");
        text.push_str(&part);
    };
    if let Some(capability) = &device.capability {
        add(format!("compute capability {capability}"));
    }
    add(format!("{} {units}", device.multiprocessors));
    if let Some(khz) = device.clock_khz {
        add(format!("{:.2} GHz", f64::from(khz) / 1e6));
    }
    if device.l2_bytes > 0 {
        add(format!("{cache} {}", Bytes(device.l2_bytes)));
    }
    if let (Some(free), Some(total)) = (device.memory_free, device.memory_total) {
        add(format!("memory {} free of {}", Bytes(free), Bytes(total)));
    }
    text
}
