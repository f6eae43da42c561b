//! How much memory models take, and how much there is.

use flow_core::files::kernel_bytes;
use flow_model::lora::{Adapter, Lora};
use flow_model::tiny::Tiny;
use flow_model::{Head, LoraSettings, ModelFault, NewModel, PolicyError, Result};
use std::cell::Cell;

/// Bytes of a parameter that only plays: a 32-bit float.
pub const PLAYING: u64 = 4;
/// Bytes of a parameter that learns: itself, its gradient, and AdamW's two moments.
pub const LEARNING: u64 = 16;

/// How many parameters a new model has whose tokenizer knows `vocab` tokens; none for sizes that don't fit one another.
pub fn parameters(model: &NewModel, vocab: usize) -> Option<u64> {
    use flow_model::Architecture;
    u64::try_from(Tiny::new(model, vocab).ok()?.layout().len()).ok()
}

/// Which setting of a new model doesn't fit the others, and why; whatever its vocabulary will be.
pub fn unfit(model: &NewModel) -> Option<(&'static str, ModelFault)> {
    let fault = Tiny::new(model, 1).err()?;
    let setting = match fault {
        ModelFault::Width { .. } => "width",
        ModelFault::Heads { .. } => "heads",
        ModelFault::Context { .. } => "context",
        _ => "new",
    };
    Some((setting, fault))
}

/// How many parameters adapters have beside such a model; none for adapters that don't fit it.
pub fn adapters(model: &NewModel, vocab: usize, lora: &LoraSettings) -> Option<u64> {
    use flow_model::Architecture;
    let layout = Tiny::new(model, vocab).ok()?.layout();
    let head = (model.head == Head::Value).then_some(model.width);
    u64::try_from(Adapter::new(Lora::new(lora), &layout, head).ok()?.layout().len()).ok()
}

thread_local! {
    /// Bytes of a GPU that were free before the first model was loaded, and bytes that the models and their caches take
    /// now.
    static GPU: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Notes how much of a GPU's memory this thread's models take. The driver can't tell, because libtorch keeps the memory
/// that it frees.
pub fn taken(free: Option<u64>, taken: u64) {
    GPU.set(free.map(|free| (free, taken)));
}

/// Bytes that are free now: of main memory within the limit of the control group if there is one, or where models lie
/// on a GPU of its memory. None where the system doesn't say.
pub fn available() -> Option<u64> {
    if let Some((free, taken)) = GPU.get() {
        // A twentieth is left for waste in libtorch's blocks and for its kernels' work space.
        return Some((free - free / 20).saturating_sub(taken));
    }
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let free = kernel_bytes("/proc/meminfo".as_ref(), "MemAvailable:")?;
    let group = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(group.map_or(free, |(most, taken)| free.min(most.saturating_sub(taken))))
}

/// Refuses what needs more bytes than are free, where that is known: so many rows of so many tokens.
///
/// # Errors
/// [`PolicyError::Memory`].
pub fn require(rows: usize, tokens: usize, needs: u64) -> Result<()> {
    match available().filter(|&free| needs > free) {
        Some(free) => Err(PolicyError::Memory { rows, tokens, needs, free }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_without_making_them() {
        let model = NewModel { layers: 2, width: 8, heads: 2, kv_heads: 1, hidden: Some(16), ..NewModel::default() };
        // A layer: q and o 64 each, k and v 32 each, three of 8 by 16, two gains of 8; then embedding and output of 10
        // by 8, and a gain.
        let layer = 64 + 64 + 32 + 32 + 3 * 128 + 16;
        assert_eq!(parameters(&model, 10), Some(2 * layer + 2 * 80 + 8));
        assert_eq!(parameters(&NewModel { width: 9, ..model.clone() }, 10), None);
        assert_eq!(parameters(&NewModel { context: 1 << 31, ..model }, 10), None, "the tables of its positions would fill the memory");
    }
}
