"""Advantages from the rows of rollouts: what each paper writes down.

A row is one turn: a dict with `task`, `sample`, `turn` and `reward`, and where a method reads them `attempt`, `phase`, `state`,
`value`, `branch_of`, `tokens` (the response's length), `token_rewards`, `token_values`, `valid`, `truncated`. Rows stand in the
order of their names (iteration, task, sample, attempt, turn). An episode is an attempt; a reflection is an episode of its own.
"""

import math

import numpy as np

# Names, episodes, groups


def episode_name(row):
    return (row.get("iteration", 0), row["task"], row["sample"], row.get("attempt", 0), row.get("phase", "play"))


def episodes(rows):
    """The indices of each episode's rows, in their order."""
    found = {}
    for i, row in enumerate(rows):
        found.setdefault(episode_name(row), []).append(i)
    return list(found.values())


def visitation_depths(rows):
    """How many earlier turns of the episode were in the same state (EAPO, section 4): a, b, a, a have 0, 0, 1, 2."""
    depths = [0] * len(rows)
    for episode in episodes(rows):
        for k, i in enumerate(episode):
            depths[i] = sum(rows[j]["state"] == rows[i]["state"] for j in episode[:k])
    return depths


def histories(rows, length):
    """For each row the `length` states before its own, or None for a turn that has fewer before it (HGPO, arXiv 2602.22817)."""
    found = [None] * len(rows)
    for episode in episodes(rows):
        for k, i in enumerate(episode):
            if k >= length:
                found[i] = tuple(rows[j]["state"] for j in episode[k - length : k])
    return found


def groups(rows, by):
    """A label for each row: equal labels are compared. A reflection has no state and no depth: reflections agree with one another."""
    depths = visitation_depths(rows) if "visitation_depth" in by else [0] * len(rows)
    place = ("state", "visitation_depth")

    def label(row, depth):
        reflects = row.get("phase", "play") == "reflect" and any(column in place for column in by)
        parts = [depth if column == "visitation_depth" else row.get(column) for column in by if not (reflects and column in place)]
        return (row.get("iteration", 0), *parts, "reflection" if reflects else "")

    return [label(row, depth) for row, depth in zip(rows, depths)]


# Returns


def episode_return(rows):
    """R: the sum of the rewards of the episode, at each of its turns."""
    values = np.zeros(len(rows))
    for episode in episodes(rows):
        values[episode] = sum(rows[i]["reward"] for i in episode)
    return values


def step_return(rows, gamma):
    """G_t = r_t + gamma G_{t+1} (GiGPO, Feng et al. 2025, arXiv 2505.10978; LaMer, Eq. 3)."""
    values = np.zeros(len(rows))
    for episode in episodes(rows):
        following = 0.0
        for i in reversed(episode):
            following = values[i] = rows[i]["reward"] + gamma * following
    return values


def cross_episode_return(rows, gamma, gamma_attempt, boundary="paper"):
    """LaMer, Eq. 4: G_t^(n) = g_t^(n) + sum over m > n of gamma_attempt^(m - n) g_0^(m), g the return within an attempt.

    By `code` (the released code) later attempts also lose gamma for each turn left in the row's own attempt. A reflection has its
    own reward and the return of the first turn of the next attempt.
    """
    values, within = np.zeros(len(rows)), step_return(rows, gamma)
    trials = {}
    for episode in episodes(rows):
        trials.setdefault((rows[episode[0]]["task"], rows[episode[0]]["sample"]), []).append(episode)
    for trial in trials.values():
        following = 0.0  # the return of the next attempt's first turn
        for episode in reversed(trial):
            if rows[episode[0]].get("phase", "play") == "reflect":
                for i in episode:
                    values[i] = rows[i]["reward"] + following
                continue
            for k, i in enumerate(episode):
                left = gamma ** (len(episode) - 1 - k) if boundary == "code" else 1.0
                if boundary == "code":
                    left *= gamma_attempt
                    values[i] = within[i] + left * following
                else:
                    values[i] = within[i] + gamma_attempt * following
            following = values[episode[0]]
    return values


def tree_return(rows, gamma):
    """AT2PO (arXiv 2601.04767): Q = r + gamma V(next prompt), V the mean of Q over all answers to that prompt.

    Answers to one prompt are the turn of the episode itself and the first turns of the branches copied there: rows with one `task`,
    `branch_of` and `turn`.
    """
    answers = {}
    for row in rows:
        answers.setdefault((row["task"], row["branch_of"], row["turn"]), []).append(row)
    place = {(row["task"], row["sample"], row["turn"]): i for i, row in enumerate(rows)}

    def q(row):
        i = place.get((row["task"], row["sample"], row["turn"] + 1))
        if i is None:
            return row["reward"]
        following = answers[(rows[i]["task"], rows[i]["branch_of"], rows[i]["turn"])]
        return row["reward"] + gamma * sum(q(answer) for answer in following) / len(following)

    return np.array([q(row) for row in rows])


def gae(rewards, values, gamma, lam, bootstrap=0.0):
    """Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, Eq. 12 and 16), over one episode:

    d_t = r_t + gamma V_{t+1} - V_t, A_t = d_t + gamma lambda A_{t+1}; V after the end is `bootstrap`.
    """
    advantages, following, after = np.zeros(len(rewards)), 0.0, bootstrap
    for t in reversed(range(len(rewards))):
        following = rewards[t] + gamma * after - values[t] + gamma * lam * following
        advantages[t], after = following, values[t]
    return advantages


def turn_gae(rows, gamma, lam):
    """GAE with a turn as a step. An episode that was cut goes on with the value of its last turn. Gives A and A + V."""
    advantages, targets = np.zeros(len(rows)), np.zeros(len(rows))
    for episode in episodes(rows):
        values = [rows[i]["value"] for i in episode]
        cut = bool(rows[episode[-1]].get("truncated"))
        advantages[episode] = gae([rows[i]["reward"] for i in episode], values, gamma, lam, values[-1] if cut else 0.0)
        targets[episode] = advantages[episode] + values
    return advantages, targets


def token_rewards(row):
    """The turn's reward with its last token, and what each token is charged (REINFORCE++; InstructGPT, Ouyang et al. 2022)."""
    rewards = np.array(row.get("token_rewards", [0.0] * row["tokens"]))
    rewards[-1] += row["reward"]
    return rewards


def over_tokens(rows, function, column="token_values"):
    """`function(rewards, values)` over the tokens of each episode, given back as a list a row."""
    lists = [None] * len(rows)
    for episode in episodes(rows):
        rewards = np.concatenate([token_rewards(rows[i]) for i in episode])
        values = np.concatenate([np.array(rows[i].get(column, [0.0] * rows[i]["tokens"])) for i in episode])
        found, at = function(rewards, values), 0
        for i in episode:
            lists[i] = found[at : at + rows[i]["tokens"]]
            at += rows[i]["tokens"]
    return lists


def token_gae(rows, gamma, lam):
    """GAE with each response token as a step; the environment's texts are no steps. Gives A and A + V, a list a row."""
    advantages = over_tokens(rows, lambda rewards, values: gae(rewards, values, gamma, lam))
    return advantages, [a + np.array(row["token_values"]) for a, row in zip(advantages, rows)]


def token_return(rows, gamma):
    """The discounted sum of the rewards from each token on (REINFORCE++, Hu 2025, arXiv 2501.03262)."""
    return over_tokens(rows, lambda rewards, values: gae(rewards, np.zeros(len(rewards)), gamma, 1.0))


def iql_targets(rows, gamma):
    """Targets of implicit Q-learning (Kostrikov et al. 2022, Eq. 5 and 6) over tokens: Q(s, a) is the value before a turn's last
    token, V(s') that before the next turn's first. Target of Q: r + gamma V(s'); of the turn's other tokens: its Q."""
    targets = [None] * len(rows)
    for episode in episodes(rows):
        following = 0.0
        for i in reversed(episode):
            values = rows[i]["token_values"]
            targets[i] = np.array([values[-1]] * (len(values) - 1) + [rows[i]["reward"] + gamma * following])
            following = values[0]
    return targets


# Comparison within a group


def deviation(values, ddof):
    """The standard deviation of a group: divided by n - ddof."""
    values = np.asarray(values, float)
    return math.sqrt(((values - values.mean()) ** 2).sum() / max(len(values) - ddof, 1))


def compare(values, labels, members, baseline="mean", scale="std", ddof=1, eps=1e-6, eps_in="std", singleton="zero"):
    """(value - baseline) / divisor within each group.

    `members` names what counts once: the episode (papers), or the row. Baselines: the group's mean; the mean of the others
    (`leave_one_out`); `second_best`: best less second best for the best one, 0 for the others; none. Divisors: std + eps;
    sqrt(variance + eps); sqrt(max(variance, eps)); the mean + eps (`scale: mean`); 1. A group of one member: advantage 0
    (`zero`), or its value (`raw`). A group of equal values has advantage 0 by any baseline.
    """
    advantages = np.zeros(len(values))
    for label in dict.fromkeys(labels):
        rows = [i for i, other in enumerate(labels) if other == label]
        own = {members[i]: values[i] for i in rows}
        group = np.array(list(own.values()))
        compared = baseline != "none" or scale != "none"
        if compared and len(group) == 1:
            for i in rows:
                advantages[i] = values[i] if singleton == "raw" else 0.0
            continue
        mean = group.mean()
        equal = len(group) > 1 and group.max() == group.min()
        if equal and baseline != "none":
            continue
        divisor = 1.0
        if scale == "std" and not equal:
            std = deviation(group, ddof)
            divisor = {"std": std + eps, "variance": math.sqrt(std**2 + eps), "variance_floor": math.sqrt(max(std**2, eps))}[eps_in]
        elif scale == "mean" and group.min() >= 0:
            divisor = mean + eps
        for i in rows:
            if baseline == "mean":
                difference = values[i] - mean
            elif baseline == "leave_one_out":
                difference = values[i] - (group.sum() - values[i]) / (len(group) - 1)
            elif baseline == "second_best":
                second = np.sort(group)[-2]
                difference = max(values[i] - second, 0.0)
            else:
                difference = values[i]
            advantages[i] = difference / divisor
    return advantages


def members_of(rows, unit):
    return [episode_name(row) for row in rows] if unit == "trajectory" else list(range(len(rows)))


def whiten(lists, ddof=1, eps=1e-8, eps_in="variance"):
    """Less the mean over all response tokens of the batch, divided by their deviation: verl's masked_whiten divides by
    sqrt(variance + 1e-8), OpenRLHF by sqrt(max(variance, 1e-8)) with the population's variance."""
    every = np.concatenate([np.asarray(one, float) for one in lists])
    variance = deviation(every, ddof) ** 2
    divisor = {"std": math.sqrt(variance) + eps, "variance": math.sqrt(variance + eps), "variance_floor": math.sqrt(max(variance, eps))}[
        eps_in
    ]
    return [(np.asarray(one, float) - every.mean()) / divisor for one in lists]


# Methods: rows and settings to advantages


def grpo(rows, by=("task",), unit="trajectory", **how):
    """GRPO (Shao et al. 2024, arXiv 2402.03300, section 4.1.2): A = (R - mean) / (std + eps), over the samples of one task."""
    return {"advantage": compare(episode_return(rows), groups(rows, by), members_of(rows, unit), **how)}


def dr_grpo(rows, **how):
    """Dr. GRPO (Liu et al. 2025, arXiv 2503.20783): A = R - mean."""
    return grpo(rows, scale="none", **how)


def rloo(rows, **how):
    """RLOO (Ahmadian et al. 2024, arXiv 2402.14740): A = R - the mean of the others = n / (n - 1) (R - mean)."""
    return grpo(rows, baseline="leave_one_out", scale="none", **how)


def maxrl(rows, **how):
    """MaxRL (arXiv 2602.02710): A = (R - mean) / (mean + eps), for returns from 0 on."""
    return grpo(rows, scale="mean", **how)


def pass_at_k(rows, **how):
    """The pass@k objective of Tang et al. 2025 (arXiv 2503.19595): the best sample has best - second best, the others 0."""
    return grpo(rows, baseline="second_best", scale="none", **how)


def dapo(rows, **how):
    """DAPO (Yu et al. 2025, arXiv 2503.14476, section 3.2): GRPO; groups whose rewards are all equal are left out (`used` 0)."""
    found = grpo(rows, **how)
    values, labels = episode_return(rows), groups(rows, ("task",))
    equal = {label: len({v for v, other in zip(values, labels) if other == label}) == 1 for label in labels}
    return {**found, "used": [int(not equal[label]) for label in labels]}


def overlong(rows, longest, buffer, weight=1.0):
    """DAPO's soft overlong punishment (Eq. 13): 0 up to longest - buffer, then linear, -weight from `longest` on."""
    lengths = np.array([row["tokens"] for row in rows])
    cost = np.clip((lengths - (longest - buffer)) / buffer, 0.0, 1.0) * weight
    return {"reward": np.array([row["reward"] for row in rows]) - cost}


def reinforce_pp(rows, gamma=1.0, **how):
    """REINFORCE++ (Hu 2025, arXiv 2501.03262): the return of each token, whitened over all response tokens of the batch."""
    return {"token_advantages": whiten(token_return(rows, gamma), **how)}


def reinforce_pp_baseline(rows, **how):
    """REINFORCE++ with a baseline (Hu 2025): first less the task's mean, then whitened over all response tokens."""
    centred = dr_grpo(rows)["advantage"]
    lists = whiten([[a] * row["tokens"] for a, row in zip(centred, rows)], **how)
    return {"advantage": np.array([one[0] for one in lists])}


def remax(rows):
    """ReMax (Li et al. 2023, arXiv 2310.10505): A = R less the return of the greedy episode of the same task (rows with
    `greedy`, which aren't trained on)."""
    returns = episode_return(rows)
    greedy = {row["task"]: value for row, value in zip(rows, returns) if row.get("greedy")}
    return {"advantage": np.array([0.0 if row.get("greedy") else value - greedy[row["task"]] for row, value in zip(rows, returns)])}


def running_mean(rows, by, decay=0.95, ema="before", each="iteration"):
    """RAE (SPIRAL, arXiv 2506.24119): A = R - b, b = decay b + (1 - decay) R a group, from 0.

    `ema`: subtract the b before the update or the one after it (SPIRAL, Algorithm 1). `each`: b moves once an iteration by the
    mean return, or with each episode.
    """
    returns, labels = episode_return(rows), [tuple(row.get(column) for column in by) for row in rows]
    running, advantages = {}, np.zeros(len(rows))
    for iteration in dict.fromkeys(row.get("iteration", 0) for row in rows):
        for label in dict.fromkeys(labels):
            own = [e for e in episodes(rows) if rows[e[0]].get("iteration", 0) == iteration and labels[e[0]] == label]
            for batch in [own] if each == "iteration" else [[e] for e in own]:
                if not batch:
                    continue
                before = running.get(label, 0.0)
                running[label] = decay * before + (1 - decay) * float(np.mean([returns[e[0]] for e in batch]))
                for e in batch:
                    advantages[e] = returns[e] - (before if ema == "before" else running[label])
    return {"advantage": advantages}


def gigpo(rows, gamma=0.95, weight=1.0, scale="std", unit="trajectory", **how):
    """GiGPO (Feng et al. 2025, arXiv 2505.10978): A_episode + w A_step. A_episode compares R within the task; A_step compares
    G_t among all turns in the same state of the task. By `unit: turn` an episode counts once a turn (the released code)."""
    episode = compare(episode_return(rows), groups(rows, ("task",)), members_of(rows, unit), scale=scale, **how)
    states = groups(rows, ("task", "state"))
    step = compare(step_return(rows, gamma), states, members_of(rows, "turn"), scale=scale, **how)
    return {"advantage": episode + weight * step}


def grouped_step(rows, by, gamma, **how):
    """The return from a turn on, compared within any groups: EAPO's by task, state and visitation depth (Eq. 13 and 14)."""
    return {"advantage": compare(step_return(rows, gamma), groups(rows, by), members_of(rows, "turn"), **how)}


def hgpo(rows, gamma=0.95, depth=3, alpha=1.0, eps=1e-6):
    """HGPO (arXiv 2602.22817): the turn compared among turns with its state, with its last two states, ..., `depth` of them;
    the comparisons are averaged with weights (k + 1)^alpha. As in verl-agent: the population's deviation; a group without company or
    without a difference has no part in the mean."""
    returns, states = step_return(rows, gamma), groups(rows, ("task", "state"))
    total, weights = np.zeros(len(rows)), np.zeros(len(rows))
    for k in range(depth):
        before = histories(rows, k)
        labels = [(state, past) if past is not None else ("alone", i) for i, (state, past) in enumerate(zip(states, before))]
        advantage = compare(returns, labels, list(range(len(rows))), ddof=0, eps=eps)
        for i, label in enumerate(labels):
            group = [returns[j] for j, other in enumerate(labels) if other == label]
            if len(group) > 1 and max(group) > min(group):
                total[i] += (k + 1) ** alpha * advantage[i]
                weights[i] += (k + 1) ** alpha
    return {"advantage": np.divide(total, weights, out=np.zeros(len(rows)), where=weights > 0)}


def lamer(rows, gamma=0.95, gamma_attempt=0.6, boundary="paper", by=("task",), **how):
    """LaMer: GRPO-like comparison of returns across the attempts at a task (Eq. 3 and 4)."""
    values = cross_episode_return(rows, gamma, gamma_attempt, boundary)
    return {"return": values, "advantage": compare(values, groups(rows, by), members_of(rows, "turn"), **how)}


def at2po(rows, gamma=1.0, eps=1e-6):
    """AT2PO (arXiv 2601.04767): a turn's tree return, less the mean of the ends' rewards, in the ends' population deviation."""
    q, advantages = tree_return(rows, gamma), np.zeros(len(rows))
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [i for i, row in enumerate(rows) if row["task"] == task]
        ends = np.array([rows[i]["reward"] for i in own if rows[i]["done"]])
        advantages[own] = (q[own] - ends.mean()) / (deviation(ends, 0) + eps)
    return {"return": q, "advantage": advantages}


def gdpo(rows, rewards, weights=None, eps=1e-6, whiten_eps=1e-8):
    """GDPO (arXiv 2601.05242): each reward compared within its task by GRPO; the weighted sum whitened over the batch's tokens.

    `rewards` are columns. The whitening is verl's: the sum counts once a response token, divided by sqrt(variance + 1e-8).
    """
    weights = weights or [1.0] * len(rewards)
    parts = [grpo([{**row, "reward": row[name]} for row in rows], eps=eps)["advantage"] for name in rewards]
    total = sum(weight * part for weight, part in zip(weights, parts))
    lists = whiten([[a] * row["tokens"] for a, row in zip(total, rows)], eps=whiten_eps)
    return {"sum": total, "advantage": np.array([one[0] for one in lists])}


def gagpo(rows, gamma=0.95, lam=0.95):
    """GAGPO (arXiv 2605.13217; with lambda 0 RTMC, arXiv 2604.11037): GAE whose value of a turn is the mean return of the turns in
    its state. Gives the advantages before any whitening."""
    returns, states = step_return(rows, gamma), groups(rows, ("task", "state"))
    mean = {label: np.mean([v for v, other in zip(returns, states) if other == label]) for label in states}
    advantages, targets = turn_gae([{**row, "value": mean[label]} for row, label in zip(rows, states)], gamma, lam)
    return {"advantage": advantages}


def ppo_turns(rows, gamma=1.0, lam=0.95):
    """PPO with a critic, a turn as a step, before whitening: A, and the critic's targets A + V."""
    advantages, targets = turn_gae(rows, gamma, lam)
    return {"advantage": advantages, "target": targets}


def ppo_tokens(rows, gamma=1.0, lam=0.95, white=False):
    """PPO with a critic, a token as a step: A (whitened over the batch's tokens by `white`), and A + V before whitening."""
    advantages, targets = token_gae(rows, gamma, lam)
    return {"token_advantages": whiten(advantages) if white else advantages, "token_targets": targets}


def returns(rows, of, gamma=1.0):
    """The return itself, without a baseline (REINFORCE, Williams 1992)."""
    return {"advantage": {"episode_return": lambda: episode_return(rows), "step_return": lambda: step_return(rows, gamma)}[of]()}


def penalised(rows, gamma=0.95, penalty=0.1, when="before_return"):
    """The price of an invalid action, and G_t less the state's mean: subtracted from the turn's reward, and so from the returns of
    the turns before it, or from G_t alone (GiGPO's released code)."""
    cost = np.array([0.0 if row["valid"] else penalty for row in rows])
    if when == "before_return":
        values = step_return([{**row, "reward": row["reward"] - c} for row, c in zip(rows, cost)], gamma)
    else:
        values = step_return(rows, gamma) - cost
    return {"advantage": compare(values, groups(rows, ("task", "state")), members_of(rows, "turn"), scale="none")}


def iql(rows, gamma=1.0):
    """The targets of implicit Q-learning over tokens."""
    return {"token_targets": iql_targets(rows, gamma)}


METHODS = {
    function.__name__: function
    for function in (
        grpo,
        dr_grpo,
        rloo,
        maxrl,
        pass_at_k,
        dapo,
        overlong,
        reinforce_pp,
        reinforce_pp_baseline,
        remax,
        running_mean,
        gigpo,
        grouped_step,
        hgpo,
        lamer,
        at2po,
        gdpo,
        gagpo,
        ppo_turns,
        ppo_tokens,
        returns,
        penalised,
        iql,
    )
}
