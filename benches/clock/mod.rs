//! A clock for benchmarks: `BENCH_CLOCK=cpu` counts the seconds of the CPU, which depend less on whoever else uses the
//! machine.

use std::time::Instant;

/// Seconds since a moment: of the clock, or those that this process spent on CPUs.
pub enum Clock {
    Wall(Instant),
    Cpu(f64),
}

impl Clock {
    pub fn start() -> Clock {
        match std::env::var("BENCH_CLOCK").as_deref() {
            Ok("cpu") => Clock::Cpu(Clock::spent()),
            _ => Clock::Wall(Instant::now()),
        }
    }

    pub fn seconds(&self) -> f64 {
        match self {
            Clock::Wall(start) => start.elapsed().as_secs_f64(),
            Clock::Cpu(start) => Clock::spent() - start,
        }
    }

    /// Seconds that this process has spent on CPUs: user and system time are the 12th and 13th field behind the name,
    /// in hundredths.
    fn spent() -> f64 {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
    }
}
