//! Names of settings in TRL, verl and verl-agent, and what they are called here: docs/coming-from.md has them in tables.

/// A name there, whose it is, the name here, and where that is.
const NAMES: &[(&str, &str, &str, &str)] = &[
    ("learning_rate", "TRL", "lr", "`gpu-update`"),
    ("num_generations", "TRL", "samples", "`rollout`"),
    ("num_generations_eval", "TRL", "samples", "`evaluate`"),
    ("generation_batch_size", "TRL", "batch", "`tasks`"),
    ("max_completion_length", "TRL", "max_tokens", "an agent"),
    ("num_iterations", "TRL", "epochs", "`gpu-update`"),
    ("max_steps", "TRL", "iterations", "the pipeline"),
    ("num_train_epochs", "TRL", "iterations", "the pipeline"),
    ("eval_steps", "TRL", "every", "`evaluate`"),
    ("save_steps", "TRL", "keep", "the pipeline"),
    ("save_total_limit", "TRL", "keep", "the pipeline"),
    ("per_device_train_batch_size", "TRL", "micro_batch", "`gpu-update`"),
    ("warmup_steps", "TRL", "warmup", "`gpu-update`"),
    ("lr_scheduler_type", "TRL", "schedule", "`gpu-update`"),
    ("loss_type", "TRL", "aggregation", "`gpu-update`"),
    ("scale_rewards", "TRL", "scale", "`advantage`"),
    ("epsilon", "TRL", "clip", "`gpu-update`"),
    ("epsilon_high", "TRL", "clip_high", "`gpu-update`"),
    ("beta", "TRL", "kl", "`gpu-update`"),
    ("importance_sampling_level", "TRL", "ratio", "`gpu-update`"),
    ("teacher_update_rate", "TRL", "reference_ema", "`gpu-update`"),
    ("distillation_topk", "TRL", "top_k", "`gpu-update`"),
    ("use_vllm", "TRL", "serve", "a model"),
    ("vllm_server_base_url", "TRL", "serve", "a model"),
    ("peft_config", "TRL", "lora", "a model"),
    ("model_name_or_path", "TRL", "load", "a model"),
    ("clip_ratio", "verl", "clip", "`gpu-update`"),
    ("clip_ratio_low", "verl", "clip", "`gpu-update`"),
    ("clip_ratio_high", "verl", "clip_high", "`gpu-update`"),
    ("clip_ratio_c", "verl", "dual_clip", "`gpu-update`"),
    ("loss_agg_mode", "verl", "aggregation", "`gpu-update`"),
    ("kl_loss_coef", "verl", "kl", "`gpu-update`"),
    ("kl_loss_type", "verl", "kl_kind", "`gpu-update`"),
    ("kl_coef", "verl", "kl", "`reward`"),
    ("entropy_coeff", "verl", "entropy", "`gpu-update`"),
    ("ppo_epochs", "verl", "epochs", "`gpu-update`"),
    ("ppo_mini_batch_size", "verl", "minibatch", "`gpu-update`"),
    ("ppo_micro_batch_size_per_gpu", "verl", "micro_batch", "`gpu-update`"),
    ("ppo_max_token_len_per_gpu", "verl", "micro_tokens", "`gpu-update`"),
    ("grad_clip", "verl", "max_grad_norm", "`gpu-update`"),
    ("lr_warmup_steps", "verl", "warmup", "`gpu-update`"),
    ("warmup_style", "verl", "schedule", "`gpu-update`"),
    ("cliprange_value", "verl", "value_clip", "`gpu-update`"),
    ("lam", "verl", "lambda", "`advantage`"),
    ("adv_estimator", "verl", "of", "`advantage`"),
    ("norm_adv_by_std_in_grpo", "verl", "scale", "`advantage`"),
    ("step_advantage_w", "verl-agent", "weights", "`combine`"),
    ("invalid_action_penalty_coef", "verl-agent", "invalid_penalty", "`advantage`"),
    ("n", "verl", "samples", "`rollout`"),
    ("train_batch_size", "verl", "batch", "`tasks`"),
    ("max_response_length", "verl", "max_tokens", "an agent"),
    ("max_prompt_length", "verl", "prompt_tokens", "an agent"),
    ("max_steps", "verl-agent", "max_turns", "an agent"),
    ("env_name", "verl-agent", "env", "`tasks`"),
    ("total_epochs", "verl", "iterations", "the pipeline"),
    ("test_freq", "verl", "every", "`evaluate`"),
    ("save_freq", "verl", "keep", "the pipeline"),
    ("lora_rank", "verl", "lora", "a model"),
    ("path", "verl", "load", "a model"),
];

/// Whose name it is, and which of the names that are `known` in this place it means.
pub fn meant<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<(&'static str, &'static str)> {
    let known: Vec<&str> = known.into_iter().collect();
    let (_, whose, own, _) = NAMES.iter().find(|(name, _, own, _)| *name == word && known.contains(own))?;
    Some((*whose, *own))
}

/// Help for a name of another trainer: what it is called here, if one of the names that are `known` in this place is
/// meant, or else where it is.
pub fn help<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let all = || NAMES.iter().filter(|(name, ..)| *name == word);
    if let Some((whose, own)) = meant(word, known) {
        return Some(format!("did you mean `{own}`? ({whose}'s `{word}`)"));
    }
    // A word that is short or common says nothing of another trainer.
    let (_, whose, own, place) = all().find(|_| word.len() > 3 && word != "path")?;
    Some(format!("{whose}'s `{word}` is `{own}` of {place} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_trainers_are_translated() {
        assert_eq!(help("learning_rate", ["lr", "clip"]).unwrap(), "did you mean `lr`? (TRL's `learning_rate`)");
        assert_eq!(help("num_generations", ["lr"]).unwrap(), "TRL's `num_generations` is `samples` of `rollout` here");
        // The name that fits the place, of two trainers that have one.
        assert_eq!(help("max_steps", ["max_turns", "model"]).unwrap(), "did you mean `max_turns`? (verl-agent's `max_steps`)");
        assert_eq!(help("max_steps", ["iterations"]).unwrap(), "did you mean `iterations`? (TRL's `max_steps`)");
        assert_eq!(help("beta", ["gamma"]).unwrap(), "TRL's `beta` is `kl` of `gpu-update` here");
        assert_eq!((help("n", ["batch"]), help("rate", ["lr"]), help("path", ["gamma"])), (None, None, None));
    }

    /// The page for people has each of these names.
    #[test]
    fn the_page_has_each_name() {
        let page = include_str!("../../../../docs/coming-from.md");
        let lacks: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).filter(|name| !page.contains(name)).collect();
        assert_eq!(lacks, [""; 0]);
    }
}
