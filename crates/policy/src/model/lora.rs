//! Adapters as tensors: the low-rank updates that a forward pass adds, and merging them into the weights they stand
//! beside. What an adapter is says [`flow_model::lora`].

use crate::model::linear::linear;
use crate::model::views::Views;
use flow_core::seed::{mix, Random};
use flow_model::config::VALUE_HEAD;
use flow_model::lora::{matrices, module, names, replacement, Adapter};
use flow_model::parameters::{Layout, Leaf, Parameter};
use tch::{Kind, Tensor};

/// The low-rank updates of one of the base model's leaves, with the adapters' weights `views` in `kind`. During
/// training with dropout, `dropped` is the seed of the dropout mask.
pub fn low_rank_updates(adapter: &Adapter, base: &Layout, leaf: &Leaf, views: &Views, kind: Kind, dropped: Option<u64>) -> Vec<LowRank> {
    let row = leaf.size[1..].iter().product::<i64>();
    let part = |p: &Parameter| {
        let [a, b] = names(module(p)).map(|name| views.get(&name).map(|leaf| leaf.to_kind(kind)));
        let dropout = dropped.map(|seed| Dropout { share: adapter.lora.dropout, seed: mix(seed, p.at as u64) });
        Some(LowRank { at: (p.at - leaf.at) / row, a: a?, b: b?, scaling: adapter.lora.scaling(), dropout })
    };
    base.stacked_in(leaf).filter(|p| p.size.len() == 2).filter_map(part).collect()
}

/// Adds to the model's own weights `flat` the contribution of the adapters' weights `own`: s B A. A head that is
/// learnt whole takes the place of the model's.
pub fn merge(adapter: &Adapter, base: &Layout, flat: &mut Tensor, own: &Tensor) {
    let views = Views::new(adapter.layout(), own, false);
    tch::no_grad(|| {
        let head = base.parameters.iter().find(|p| p.name == VALUE_HEAD);
        if let Some((p, head)) = head.zip(views.get(&replacement(VALUE_HEAD))) {
            flat.narrow(0, p.at, p.len()).copy_(&head.reshape([-1]));
        }
        for p in matrices(base) {
            if let [Some(a), Some(b)] = names(module(p)).map(|name| views.get(&name).map(Tensor::shallow_clone)) {
                let _ = flat.narrow(0, p.at, p.len()).view(p.size.as_slice()).g_add_(&(b.matmul(&a) * adapter.lora.scaling()));
            }
        }
    });
}

/// The update that an adapter adds to some of a matrix's outputs: s B A x.
pub struct LowRank {
    /// The first of them.
    pub at: i64,
    /// `[rank, in]`.
    pub a: Tensor,
    /// `[outputs, rank]`.
    pub b: Tensor,
    /// The factor on their product.
    pub scaling: f64,
    dropout: Option<Dropout>,
}

/// Dropout on A's inputs during training (Srivastava et al. 2014): each number is set to 0 with this probability, and
/// the others are scaled up in proportion.
struct Dropout {
    share: f64,
    seed: u64,
}

impl Dropout {
    /// `x` after dropout. The mask depends only on the optimiser step, the matrix and the numbers in `x`, so every
    /// thread and process draws the same one.
    fn apply(&self, x: &Tensor) -> Tensor {
        let sum = x.detach().sum(Kind::Double).double_value(&[]);
        let mut random = Random::new(mix(self.seed, sum.to_bits()));
        let below = (self.share * 65_536.0) as u64;
        let mut left = Vec::with_capacity(x.numel() + 3);
        while left.len() < x.numel() {
            let drawn = random.next();
            left.extend((0..4).map(|part| (drawn >> (16 * part) & 0xffff >= below) as u8 as f32));
        }
        left.truncate(x.numel());
        x * (Tensor::from_slice(&left).to_device(x.device()).view(x.size().as_slice()) / (1.0 - self.share)).to_kind(x.kind())
    }
}

impl LowRank {
    /// How many outputs it adds to.
    pub fn outputs(&self) -> i64 {
        self.b.size()[0]
    }

    /// The update for the inputs `x` `[.., in]`: `[.., outputs]`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let kept_inputs = self.dropout.as_ref().map(|dropout| dropout.apply(x));
        linear(&(linear(kept_inputs.as_ref().unwrap_or(x), &self.a, None) * self.scaling), &self.b, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_model::lora::Lora;
    use flow_model::parameters::Initializer;

    fn base() -> Layout {
        let mut layout = Layout::default();
        layout.add("model.embed_tokens.weight", &[5, 2], Initializer::Normal(1.0));
        let qk = [("model.layers.0.self_attn.q_proj.weight".into(), 2), ("model.layers.0.self_attn.k_proj.weight".into(), 1)];
        layout.stacked("model.layers.0.self_attn.qk.weight", &qk, Some(2), Initializer::Normal(1.0));
        layout.add("model.layers.0.input_layernorm.weight", &[2], Initializer::Ones);
        layout
    }

    fn lora(targets: &[&str]) -> Lora {
        let targets = targets.iter().map(|target| target.to_string()).collect();
        Lora { rank: 1, alpha: 2.0, dropout: 0.0, stabilised: false, targets }
    }

    #[test]
    fn what_is_added_and_what_is_merged_as_worked_by_hand() {
        let base = base();
        let adapter = Adapter::new(lora(&["k_proj"]), &base, None).unwrap();
        assert_eq!(adapter.layout().len(), 3);
        // A = [1 2], B = [3], s = 2: k gains 6 [1 2].
        let own = Tensor::from_slice(&[1.0f32, 2.0, 3.0]);
        let leaf = &base.leaves[1];
        let updates = low_rank_updates(&adapter, &base, leaf, &Views::new(adapter.layout(), &own, false), Kind::Float, None);
        assert_eq!((updates.len(), updates[0].at, updates[0].outputs()), (1, 2, 1));
        assert_eq!(updates[0].forward(&Tensor::from_slice(&[10.0f32, 1.0])).double_value(&[0]), 72.0);
        let mut flat = Tensor::zeros([base.len()], (Kind::Float, own.device()));
        merge(&adapter, &base, &mut flat, &own);
        assert_eq!((0..base.len()).map(|i| flat.double_value(&[i])).collect::<Vec<_>>()[14..16], [6.0, 12.0]);
        assert_eq!(flat.sum(None).double_value(&[]), 18.0, "nothing else");
    }

    /// The head is the last of the adapter's weights, begins at 0, and takes the place of the base's where that has
    /// one.
    #[test]
    fn a_head_is_learnt_whole_beside_an_adapter() {
        let mut base = base();
        let adapter = Adapter::new(lora(&["k_proj"]), &base, Some(2)).unwrap();
        assert_eq!((adapter.layout().len(), adapter.layout().random(1)[3..].to_vec()), (5, vec![0.0, 0.0]));
        assert_eq!(adapter.layout().parameters[2].name, "base_model.model.value_head.weight");
        base.add(VALUE_HEAD, &[1, 2], Initializer::Normal(0.0));
        let own = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 7.0, 8.0]);
        let mut flat = Tensor::ones([base.len()], (Kind::Float, own.device()));
        merge(&adapter, &base, &mut flat, &own);
        assert_eq!((14..20).map(|i| flat.double_value(&[i])).collect::<Vec<_>>(), [7.0, 13.0, 1.0, 1.0, 7.0, 8.0]);
    }

    #[test]
    fn a_share_of_the_inputs_is_dropped_and_the_rest_made_up_for_it() {
        let x = Tensor::ones([200, 100], (Kind::Float, tch::Device::Cpu));
        let dropped = |seed| Dropout { share: 0.25, seed }.apply(&x);
        let (left, again, other) = (dropped(1), dropped(1), dropped(2));
        assert!(left == again && left != other);
        let zeros = left.eq(0.0).sum(Kind::Float).double_value(&[]);
        assert!((zeros / 20_000.0 - 0.25).abs() < 0.02, "{zeros} of 20000");
        assert!((left.max().double_value(&[]) - 4.0 / 3.0).abs() < 1e-6);
        assert!((left.mean(Kind::Float).double_value(&[]) - 1.0).abs() < 0.02);
    }
}
