"""Generated from schemas/flow.schema.json by scripts/stubs.py; don't edit it. The operators of a pipeline, a function each.

A function returns a node's `op` and `with`: `p.node("update", flow.ops.gpu_update(model=actor, lr=1e-3), inputs=credit)`. A setting that isn't given
isn't written, so the default in its text applies. A None is written as null. A setting whose name is a word of Python has an underscore at its end."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Literal, Mapping, Union

__all__ = [
    "tasks", "rollout", "import_", "reflect", "extract", "memory_update", "cluster", "novelty", "rollback", "rewrite",
    "score", "reward", "value", "derive", "python", "group", "advantage", "concat", "combine", "gpu_update",
    "evaluate",
]

Settings = Mapping[str, Any]


class Unset:
    """A setting that isn't given."""

    def __repr__(self) -> str:
        return "..."


UNSET: Any = Unset()


def made(op: str, settings: Dict[str, Any]) -> Dict[str, Any]:
    """A node without inputs, of the settings that are given."""
    given = {name.rstrip("_"): value for name, value in settings.items() if value is not UNSET}
    return {"op": op, "with": given} if given else {"op": op}


def tasks(
    *,
    env: Literal["sokoban", "minesweeper", "webshop", "search", "doors", "process", "program", "alfworld", "bfcl", "gem", "gymnasium", "harbor", "mcp", "miniwob", "openenv", "scienceworld", "textarena", "textworld", "textworld-express", "verifiers"],
    batch: int,
    size: Union[int, None] = UNSET,
    boxes: Union[int, None] = UNSET,
    moves: Union[int, None] = UNSET,
    split: Union[str, None] = UNSET,
    mines: Union[int, None] = UNSET,
    products: Union[int, None] = UNSET,
    pages: Literal["text", "rich"] = UNSET,
    pays: Literal["score", "win"] = UNSET,
    documents: Union[int, None] = UNSET,
    found: Union[int, None] = UNSET,
    doors: Union[int, None] = UNSET,
    rooms: Union[int, None] = UNSET,
    expert: Literal["best", "hesitant"] = UNSET,
    command: List[str] = UNSET,
    name: Union[str, None] = UNSET,
    processes: Union[int, None] = UNSET,
    seconds: Union[float, None] = UNSET,
    pass_: Union[List[str], None] = UNSET,
    tasks: str = UNSET,
    folder: Union[str, None] = UNSET,
    reward: Union[Literal["output", "post"], Settings] = UNSET,
    start: Literal["process", "fork"] = UNSET,
    sandbox: Literal["none", "bubblewrap", "docker", "podman"] = UNSET,
    image: Union[str, None] = UNSET,
    network: Union[bool, None] = UNSET,
    write_folder: Union[bool, None] = UNSET,
    read: Union[List[str], None] = UNSET,
    hide: Union[List[str], None] = UNSET,
    memory_mb: Union[int, None] = UNSET,
    max_processes: Union[int, None] = UNSET,
    cpu_seconds: Union[int, None] = UNSET,
    disk_mb: Union[int, None] = UNSET,
    won_at: Union[float, None] = UNSET,
    calls: Union[int, None] = UNSET,
    episode_seconds: Union[float, None] = UNSET,
    live: Union[int, None] = UNSET,
    parallel: Union[bool, None] = UNSET,
    world: Union[str, None] = UNSET,
    variations: Union[int, None] = UNSET,
) -> Dict[str, Any]:
    """`tasks`: opens each iteration with a batch of fresh tasks.

    Settings:
        env: The environment. Required.
            "sokoban": Push every box onto a target.
            "minesweeper": Open every cell that hides no mine.
            "webshop": Buy what an instruction asks for: WebShop's rules, with a catalogue of its own.
            "search": Answer questions that need two documents of a searchable corpus, made from a seed.
            "doors": Open the right one of several doors: a sign names it, or a note in a room, or nothing does. Only
                one can be opened.
            "process": A program of your own, which reads and writes JSON lines: see docs/protocol.md and
                examples/corridor.py.
            "program": An agent program of your own, which needs no change: it calls a chat model at a base URL.
            "alfworld": ALFWorld's engine with regenerated scenes.
            "bfcl": BFCL's multi-turn categories: scripted users, simulated tools, its own checker.
            "gem": GEM's environments.
            "gymnasium": Gymnasium's environments with discrete actions or text.
            "harbor": Tasks in Harbor's format, in plain folders or in containers of their own images.
            "mcp": Tools of MCP servers, with a checking command.
            "miniwob": MiniWoB++'s pages in a real headless Chromium.
            "openenv": Servers of the standard OpenEnv.
            "scienceworld": ScienceWorld: elementary science in a simulated house.
            "textarena": TextArena's games for one player.
            "textworld": TextWorld: generated games, or files of them.
            "textworld-express": TextWorldExpress: cookingworld, coin and others.
            "verifiers": Environments of verifiers: answers, talks and tools.
        batch: Tasks in an iteration. Required.
        size: Rows and columns of the board.
        boxes: Boxes of a room, and as many targets.
        moves: Moves that one turn may make.
        split: The quarter of all tasks that these are of: `warmstart`, `train`, `dev` or `test`. Tasks are dealt by
            their content, so none is in two of them. Any but those of `test`, which panels are made of, when left
            out.
            "test": To be measured on: what frozen panels are made of.
            "dev": To choose by, or to adapt to after training.
            "warmstart": For a warm start, so that training meets boards that it didn't imitate.
            "train": To be trained on.
        mines: Mines of a board.
        products: Products of the catalogue.
        pages: How a page is shown: its texts alone, or a line each with the buttons marked, clicked ones differently.
            "text": The published `text`: the texts of the page, joined by ` [SEP] `. Chosen options aren't marked.
            "rich": The published `text_rich`: a text a line; buttons are marked, clicked ones differently.
        pays: The reward of a purchase: WebShop's score from 0 to 1, or 10 for a score of 1 and else nothing, as
            verl-agent has it.
            "score": WebShop's score.
            "win": 10 for a score of 1, else nothing.
        documents: Documents of the corpus.
        found: Documents that a search finds.
        doors: Doors of a house, one of them the right one.
        rooms: Rooms of a house.
        expert: The expert's strategy.
            "best": One who looks into rooms where that pays and nowhere else: the best there is.
            "hesitant": One who knows the form of an answer and not when to look: in the hall looks with even odds as
                long as it has seen no note and there is a room left, whatever the sign says, else opens the door that
                it knows of, or any; in a room takes the way back with even odds, else any way. For a warm start that
                leaves something to learn.
        command: The program of a process and its arguments, run as they are, without a shell, where `flow` runs.
        name: The name of the process's tasks. Its tasks are known by this name and a seed, so a program with other
            settings needs another name.
        processes: How many processes of the program share the episodes.
        seconds: Seconds that an answer of a process may take, after which it is killed and its episodes are tried
            again.
        pass_: Environment variables of flow's own that the program gets in addition to variables that describe the
            machine (docs/protocol.md lists them); any other could be a secret.
        tasks: A file of tasks, a JSON object a line: `id` names the task, `split` its split (`train` unless given),
            and all else is the program's own to read.
        folder: The folder that it runs in; the one that `flow` runs in unless given.
        reward: Where its reward comes from.
            "output": The last line that it writes: `{"reward": 1.0, "won": true}`, or a number.
            "post": The JSON that it posts to `.../reward`.
        start: How an episode's program is started.
            "process": As a new process.
            "fork": A program in Python: as a fork of a process that has imported its packages, so that an episode
                doesn't pay for them. Packages that start threads or read the environment as they are imported need
                `process`.
        sandbox: Where its processes run, and a checking command's: `bubblewrap`, `docker` and `podman` are for
            programs, and models behind them, that aren't trusted.
            "none": On this machine, as the user that runs flow.
            "bubblewrap": In namespaces of their own, by bubblewrap (`bwrap`): the system's folders and their own to
                read, FLOW_FOLDER to write, no network but the model, and limits.
            "docker": In a container of `image`, by a Docker daemon on this machine: the same, with the image's
                programs.
            "podman": The same by Podman, which needs no daemon.
        image: With `sandbox: docker` or `podman`: the image that it runs in, which needs `python3` and is never
            pulled.
        network: In a sandbox: this machine's network, with every server on its loopback. Without it the program
            reaches the model's base URL and nothing else.
        write_folder: In a sandbox: the program may write into the folder that it runs in. Without it FLOW_FOLDER,
            `/tmp` and home, which are empty at first, are all that it can write to.
        read: In a sandbox: further files and folders that the program may read.
        hide: In a sandbox: files and folders that are hidden from the program, besides `.env`, `.git` and `runs` in
            its folder. A path begins in that folder, and a path that isn't there is refused.
        memory_mb: In a sandbox: MB of memory, of one process and of all of an episode; 4096 unless given.
        max_processes: In a sandbox: processes and threads of an episode at once; 512 unless given.
        cpu_seconds: In a sandbox: seconds of CPU time, of one process and of all of an episode; 3600 unless given.
        disk_mb: In a sandbox: MB of a file, of all files in FLOW_FOLDER, and of each of `/tmp`, `/dev/shm` and home,
            which are in memory; 1024 unless given.
        won_at: The reward from which an episode counts as won, where the program doesn't say.
        calls: Calls that an episode may make, at most: one more is a failure and no reward.
        episode_seconds: Seconds that an episode may take, at most.
        live: Programs that run at once, at most.
        parallel: Whether calls of one episode may overlap (sub-agents that work at the same time): its rows then
            stand in the order of their graph, so that they are the same whichever call comes first. Without it an
            episode whose calls overlap has failed. Threads that race need it even if their calls happen not to
            overlap.
        world: The part after the colon in `flow-env serve textworld-express:coin`: which games, pages or servers;
            `flow env` shows the form.
        variations: Repeats this many tasks, so that lessons from one can be of use when it comes again; tasks are
            always new when left out. At least `batch`.
    """
    return made("tasks", {**locals()})


def rollout(
    *,
    agent: Union[str, Settings],
    temperature: Union[float, None] = UNSET,
    tries: int = UNSET,
    samples: int = UNSET,
    groups: Union[int, None] = UNSET,
    actor: Literal["policy", "expert", "rescue"] = UNSET,
    join: bool = UNSET,
    branch: Union[Settings, None] = UNSET,
    max_failed: float = UNSET,
) -> Dict[str, Any]:
    """`rollout`: plays episodes and emits their turns.

    Inputs:
        tasks: the tasks to play
        weights: the update whose weights act; needed where one trains the model
        memory: in a loop: what begins the next attempt, with the notes on the attempts before
        any other name: a memory, by the name that the agent's context has for it, or the update of a model of its
            `by_name`, by the model's name

    Settings:
        agent: The agent that plays. Required.
        temperature: The temperature at which it samples here, if not its own; 0 takes the likeliest.
        tries: How often an episode is played before it is given up as failed. A later try that succeeds gives the
            rows that the first would have given. Default: 2.
        samples: Trajectories a task. Default: 8.
        groups: Plays tasks, in their order, until this many have returns that are not all equal; all of them when
            left out. A return is what an episode earns by the rewards that are compared: as a `reward` node
            downstream weighs them (without its `kl`). DAPO's dynamic sampling: give `tasks` a larger batch. The tasks
            that are left over stay unplayed. Of several processes the first one then plays alone.
        actor: The source of actions: the policy, the environment's expert, or both. Default: "policy".
            "policy": The model.
            "expert": The environment's own solver: demonstrations.
            "rescue": In a loop: the model in the first attempt, the solver in later attempts, which knows the notes:
                demonstrations of how to go on from a failure.
        join: An expert's action that isn't among the admissible ones joins them; otherwise it costs its episode.
            Default: false.
        branch: Copies episodes at chosen turns, and plays on from there: trees of episodes (AT2PO, arXiv 2601.04767;
            ARPO). A copy, a branch, is a further sample of its task, whose rows begin with the turn that it answers
            anew; makes the column `branch_of`. Compare the answers to one prompt by `group` with `by: [task,
            branch_of, turn]`, and take what was played behind each into account by `of: tree_return` of `advantage`.
            What is made over an episode (`visitation_depth`, `history`, `over turns`) sees a branch's own rows.
            Figures such as `success` and `return` count the `samples` alone, so that a task counts the same however
            often it is copied; `turns`, `failed` and tokens count branches, too. Needs an environment that plays a
            task alike each time.
        max_failed: The share of an iteration's episodes that may fail; the run stops when more do. Of several
            processes each judges the episodes that it plays. Default: 0.1.
    """
    return made("rollout", {**locals()})


def import_(
    *,
    from_: Union[str, None] = UNSET,
    files: List[str] = UNSET,
) -> Dict[str, Any]:
    """`import`: stands for another trainer's rollouts, which `flow import` read.

    Settings:
        from_: The format of the files.
        files: The files that were read. Default: [].
    """
    return made("import", {**locals()})


def reflect(
    *,
    agent: Union[str, Settings],
    temperature: Union[float, None] = UNSET,
    on: Literal["failure", "always"] = UNSET,
    tries: int = UNSET,
    keep: Literal["reflection", "history", "both", "none"] = UNSET,
    budget: int = UNSET,
    actor: Literal["policy", "expert", "rescue"] = UNSET,
    notes: Literal["own", "another"] = UNSET,
) -> Dict[str, Any]:
    """`reflect`: has the policy write a reflection on finished episodes.

    Inputs:
        rows: whole episodes
        any other name: a memory, by the name that the agent's context has for it, or the update of a model of its
            `by_name`, by the model's name

    Settings:
        agent: The agent that reflects, in whose words: the one that played, or another. Required.
        temperature: The temperature at which it samples here, if not its own; 0 takes the likeliest.
        on: Which episodes are reflected on. Default: "failure".
            "failure": Episodes that were not won.
            "always": All.
        tries: How often it is asked, each time with a draw of its own, until its answer has the required part. What
            is still without is no valid reflection: `valid` is false and `action` empty. Default: 1.
        keep: The parts of this attempt in the prompts of later ones. Default: "both".
            "reflection": The policy's reflection on it.
            "history": Its actions and its end.
            "both": Both: the paper's default.
            "none": Nothing.
        budget: The most tokens of all notes together; the oldest note is dropped first. Default: 256.
        actor: The agent that writes the reflection: the policy, the environment's expert, or both. Default: "policy".
            "policy": The model.
            "expert": The environment's own solver: demonstrations.
            "rescue": In a loop: the model in the first attempt, the solver in later attempts, which knows the notes:
                demonstrations of how to go on from a failure.
        notes: Where the expert reflects: whether it notes something of this task, or of another one of the game,
            which teaches the form of a note and not its content. Default: "own".
            "own": Its own.
            "another": Another task's: a control, which says what notes are worth that are of no use.
    """
    return made("reflect", {**locals()})


def extract(
    *,
    threshold: Union[float, None] = UNSET,
    best: int = UNSET,
    worst: int = UNSET,
    rank: Literal["all", "task"] = UNSET,
    agent: Union[str, Settings] = UNSET,
    temperature: Union[float, None] = UNSET,
    template: Union[str, None] = UNSET,
    strategies: int = UNSET,
    warnings: int = UNSET,
) -> Dict[str, Any]:
    """`extract`: extracts entries for a memory from the best and the worst episodes: strategies and warnings.

    Inputs:
        rows: whole episodes

    Settings:
        threshold: An episode came out well whose score is above this; above the median of the iteration's scores when
            left out (SLEA-RL).
        best: How many of the episodes that came out well count: those with the highest scores. Default: 5.
        worst: How many of the others count: those with the lowest scores. Default: 5.
        rank: Among which episodes scores are ranked. Where what an episode can earn depends on its task, `task` keeps
            the tasks that pay most from supplying all entries. Default: "all".
            "all": Those of the iteration (SLEA-RL).
            "task": Those of the same task: the median is the task's, and the best of each task come before the second
                best of any.
        agent: The agent that writes the entries, `level: text` lines, on one episode at a time; its prompt may ask
            for `{{ kind }}` and `{{ transcript }}`. All of its answer is read unless it has an `answer`.
        temperature: The temperature at which it samples here, if not its own; 0 takes the likeliest.
        template: In place of an agent, for policies that can't write: a template that makes the line `level: text` of
            a turn. It may ask for `observation`, `action`, `next` (what the turn led to), `turn` and `turns`
            (numbers, from 1), `kind`, `won` and `score`. The turns that are nearest to the end of their episodes come
            first.
        strategies: Strategies of an iteration, at most, those of the best episode first. Default: 10.
        warnings: Warnings of an iteration, at most, those of the worst episode first. Default: 5.
    """
    return made("extract", {**locals()})


def memory_update(
    *,
    entries: Literal["reflections", "endings", "turns"] = UNSET,
    text: str = UNSET,
    tag: Union[str, None] = UNSET,
    list: Union[Settings, None] = UNSET,
    score: str = UNSET,
    above: Union[float, None] = UNSET,
    rescore: Union[Settings, None] = UNSET,
    key: str = UNSET,
    points: Literal["words", "encoder", "none"] = UNSET,
    encoder: Union[str, None] = UNSET,
    per: Literal["task", "all", "cluster"] = UNSET,
    at_least: float = UNSET,
    longest: int = UNSET,
    capacity: int = UNSET,
    capacities: Settings = UNSET,
    evict: Literal["oldest", "lowest"] = UNSET,
    ties: Literal["newer", "older"] = UNSET,
    duplicates: Literal["drop", "keep"] = UNSET,
    novelty: Union[float, None] = UNSET,
    novelty_of: Literal["key", "text", "both"] = UNSET,
    window: Union[int, None] = UNSET,
) -> Dict[str, Any]:
    """`memory-update`: keeps a memory of entries made from rows: versioned, and read by later iterations.

    Inputs:
        rows: the rows that entries are made of
        retrieved: turns whose prompts had entries of it: with `rescore`, the outcomes of their episodes move the
            scores of those entries

    Settings:
        entries: Which rows become entries. Default: "reflections".
            "reflections": Reflections.
            "endings": The last turn of each episode.
            "turns": Every turn.
        text: The column with the text of an entry; of a reflection, `action` is the remark parsed from it. A row
            without a text makes no entry. Default: "action".
        tag: The text is read from this tag, as <tip>...</tip>; the whole column when left out.
        list: The text is a list, and each line becomes an entry: how its lines are read. A line that can't be read is
            noted in the table `errors`.
        score: The column with an entry's score. Default: "score".
        above: A row whose score is not above this makes no entry: 0 keeps only what earned something. Every row makes
            one when left out.
        rescore: Entry scores follow the outcomes of the episodes that retrieved the entries, whose turns come by the
            input `retrieved`. Scores are fixed when left out.
        key: The column with the keys: what an entry is found by, and states are compared by. Of a reflection,
            `observation` is what the episode ended with. Default: "observation".
        points: How keys are embedded for similarity search. Default: "words".
            "words": Hashed words and pairs of neighbours: cheap, and blind to meaning.
            "encoder": The model that `encoder` names, such as all-MiniLM-L6-v2 (EMPO2).
            "none": Nothing: keys are compared as they are.
        encoder: The encoder, of `models`, for `points: encoder`.
        per: Which entries share a bucket, and its capacity. Default: "task".
            "task": Those of a task (EMPO2).
            "all": All.
            "cluster": Those whose keys are alike, of whatever task (SLEA-RL).
        at_least: By `per: cluster`: a key belongs to the first cluster with whose first entry's key it has at least
            this cosine; else it founds one. Default: 0.85.
        longest: The longest text that becomes an entry, in bytes; a row with a longer one is noted in the table
            `errors`. Default: 4000.
        capacity: Entries of a bucket, at most. Default: 1000.
        capacities: The capacity for entries of a kind where it is another, as in `{ warning: 50 }`. A kind and level
            has its own places in a bucket.
        evict: Which entry is evicted when a bucket is full. Default: "oldest".
            "oldest": The entry from the earliest row: first in, first out (EMPO2).
            "lowest": The entry with the lowest score, which may be the candidate itself (SLEA-RL).
        ties: How ties for the lowest score are broken. Needs `evict: lowest`. Default: "newer".
            "newer": The newer ones: a candidate must beat the lowest.
            "older": The older ones: a candidate that is as good takes their place.
        duplicates: How a text is treated that is already in its bucket. Default: "drop".
            "drop": The candidate is left out, whatever its score.
            "keep": It is a candidate like any other.
        novelty: A candidate that is like an entry of its bucket and kind by at least this is left out; by 1 only if
            it is equal.
        novelty_of: The part of an entry that `novelty` compares. Default: "key".
            "key": Keys, by the cosine of their points: hashed words or an encoder's.
            "text": Texts, by the share of characters that match: Python's difflib ratio (SLEA-RL's released code).
            "both": Both: a candidate is left out where one entry is like it in its key and in its text.
        window: Entries live for this many iterations, counting that of their row; without end when left out.
    """
    return made("memory-update", {**locals()})


def cluster(
    *,
    key: str = UNSET,
    points: Literal["words", "encoder", "none"] = UNSET,
    encoder: Union[str, None] = UNSET,
    compare: Literal["cosine", "ratio"] = UNSET,
    at_least: float = UNSET,
    per: Literal["task", "all"] = UNSET,
) -> Dict[str, Any]:
    """`cluster`: assigns each observation to a cluster of similar ones; clusters last over all iterations.

    Inputs:
        rows: turns

    Settings:
        key: The column with the keys: what an entry is found by, and states are compared by. Of a reflection,
            `observation` is what the episode ended with. Default: "observation".
        points: How keys are embedded for similarity search. Default: "words".
            "words": Hashed words and pairs of neighbours: cheap, and blind to meaning.
            "encoder": The model that `encoder` names, such as all-MiniLM-L6-v2 (EMPO2).
            "none": Nothing: keys are compared as they are.
        encoder: The encoder, of `models`, for `points: encoder`.
        compare: How a key is compared with a prototype. Default: "cosine".
            "cosine": By the cosine of their points; by `points: none` keys are alike that are equal.
            "ratio": By the share of characters that match, as Python's difflib.SequenceMatcher(None, key,
                prototype).ratio() has it (SLEA-RL's released code). Equal keys are alike, whatever its rule for
                popular characters makes of them. `points` has no meaning then.
        at_least: A key joins the first cluster whose prototype it is like by at least this: a cosine, or a ratio of
            matching characters; by 1 only if it is equal. Default: 0.85.
        per: Which keys are compared: those of all tasks, or of each task by itself. Default: "all".
            "task": Those of a task (EMPO2).
            "all": All.
    """
    return made("cluster", {**locals()})


def novelty(
    *,
    count: Literal["visits", "retrieved"] = UNSET,
    of: Literal["next_state", "state"] = UNSET,
    key: str = UNSET,
    points: Literal["words", "encoder", "none"] = UNSET,
    encoder: Union[str, None] = UNSET,
    at_least: float = UNSET,
    per: Literal["task", "all"] = UNSET,
    whose: Literal["own", "another"] = UNSET,
) -> Dict[str, Any]:
    """`novelty`: counts how often states like the one that a turn led to have been visited.

    Inputs:
        rows: turns

    Settings:
        count: The meaning of n. Default: "visits".
            "visits": The states up to the end of the iteration that were like the same distinct state: one number for
                all of the iteration's rows. A state that is like none is distinct itself.
            "retrieved": One more than the entries in the prompt; 0, and no reward, in mode plain (EMPO2's released
                code).
        of: Which state a turn is paid for, by `count: visits`. Default: "next_state".
            "next_state": The one that it led to (EMPO2, section 4.2: "for each new state"): the key of the next turn,
                and after an episode's last turn what the environment showed then (column `outcome`).
            "state": The one that it was taken in: the start of an episode is paid for each time, and its end never.
        key: The column with the keys: what an entry is found by, and states are compared by. Of a reflection,
            `observation` is what the episode ended with. Default: "observation".
        points: How keys are embedded for similarity search. Default: "words".
            "words": Hashed words and pairs of neighbours: cheap, and blind to meaning.
            "encoder": The model that `encoder` names, such as all-MiniLM-L6-v2 (EMPO2).
            "none": Nothing: keys are compared as they are.
        encoder: The encoder, of `models`, for `points: encoder`.
        at_least: A state is like a distinct one when the cosine of their keys is at least this; by `points: none`,
            when their keys are equal. Default: 0.9.
        per: Which states are compared. Default: "task".
            "task": Those of a task (EMPO2).
            "all": All.
        whose: The row that `novelty` is taken from: a control for its value. The counts stay its own. Default: "own".
            "own": Its own.
            "another": Another row's of the iteration, drawn without replacement: the same numbers, shuffled, so that
                they say nothing of their rows.
    """
    return made("novelty", {**locals()})


def rollback() -> Dict[str, Any]:
    """`rollback`: tries in the environment which action takes each turn back.

    Inputs:
        rows: whole episodes of an environment that plays a task alike each time, and names equal states alike
    """
    return made("rollback", {})


def rewrite(
    *,
    model: str,
    prompt: str,
    response: str,
    closed: bool = UNSET,
) -> Dict[str, Any]:
    """`rewrite`: replaces the prompts and responses of rows by your own.

    Inputs:
        rows: the rows to rewrite: whole attempts, where a template uses the turns beside a row

    Settings:
        model: The model whose tokens the texts are written in: the one that learns from them. Required.
        prompt: The prompt: a template over the columns of a row (`{{ row.observation }}`), of the turn before it
            (`before`) and of the turn after it (`after`), over `observation` and `action` of all turns before it
            (`history`), over the task's text (`task`) and its right answer (`gold`), or a file with one. Where the
            model has a chat template it is the turn of a user. Required.
        response: The response to learn, a template likewise. A row for which it comes to nothing has no response, and
            isn't learnt from. Required.
        closed: Whether the response is closed by the end token, as an answer is. A text whose likelihood `score`
            measures isn't. Default: true.
    """
    return made("rewrite", {**locals()})


def score(
    *,
    model: str,
    prompt: str,
    targets: Settings,
    mode: Literal["sequence", "token_mean", "log_prob"] = UNSET,
    whose: Literal["own", "another"] = UNSET,
) -> Dict[str, Any]:
    """`score`: asks a model how likely texts are behind another text.

    Inputs:
        rows: the rows whose texts are scored: whole attempts, where a template uses the turns beside a row
        weights: the update of the model whose weights score; needed where one trains it

    Settings:
        model: The model whose probabilities are asked for. Required.
        prompt: The text before them: a template over the columns of a row (`{{ row.observation }}`), of the turn
            before it (`before`) and of the turn after it (`after`), over `observation` and `action` of all turns
            before it (`history`), over the task's text (`task`) and its right answer (`gold`), or a file with one.
            Where the model has a chat template it is the turn of a user. Required.
        targets: The texts that are scored, each a template likewise, by the name of its score: `memory` makes the
            column `score_memory`. Required.
        mode: How the log-probabilities of a text's tokens become its score. Default: "token_mean".
            "sequence": The probability of the text: exp of their sum, which counts as -60 at least (EAPO's released
                code).
            "token_mean": The geometric mean of the tokens' probabilities: exp of their mean.
            "log_prob": Their sum itself, in nats.
        whose: The row that a score is taken from: a control for the value of scores. Default: "own".
            "own": Its own.
            "another": Another row's of the iteration, drawn without replacement: the same numbers, shuffled, so that
                they say nothing of their rows.
    """
    return made("score", {**locals()})


def reward(
    *,
    task: float = UNSET,
    task_of: Literal["turn", "attempt", "to_go"] = UNSET,
    gamma: float = UNSET,
    won: float = UNSET,
    format: float = UNSET,
    tags: List[str] = UNSET,
    format_per: Literal["response", "tag"] = UNSET,
    explore: Union[Settings, None] = UNSET,
    invalid: float = UNSET,
    score_of: Literal["world", "paid"] = UNSET,
    scores: Settings = UNSET,
    novelty: float = UNSET,
    overlong: Union[Settings, None] = UNSET,
    kl: float = UNSET,
    kl_per: Literal["turn", "token"] = UNSET,
    model: Union[str, None] = UNSET,
    reference: Union[str, None] = UNSET,
    temperature: Union[float, None] = UNSET,
) -> Dict[str, Any]:
    """`reward`: weighs the task's reward, the format, the validity of an action and the length of a response.

    Inputs:
        rows: turns

    Settings:
        task: Weight of the environment's reward. Default: 1.0.
        task_of: Which part of an attempt's rewards a turn's is, before its weight. Default: "turn".
            "turn": The environment's reward for the turn itself: with `advantage` `of: step_return`, Eq. 4.
            "attempt": Its sum over the whole attempt, for each of its turns: with `of: reward`, Eq. 14 to the letter.
            "to_go": Its sum from the turn on, discounted by `gamma` a turn: with `of: reward`, Eq. 14 with the
                discount that remark 5.1 speaks of. So a turn is not paid for the form of later turns, which would
                make long episodes worth more than won ones.
        gamma: By `task_of: to_go`, what a turn of delay costs: 0.9 in EAPO (table 3). Default: 0.9.
        won: Earned by the turn that wins; 10 with `task: 0` in LaMer. Default: 0.0.
        format: Earned by a response from which an action could be read and which has the tags of `tags`; 0.5 in EAPO
            (table 3). Default: 0.0.
        tags: The tags that a response must have for `format` besides an action that can be read, each closed: [think,
            explore, memory, action] in EAPO. None unless given. Default: [].
        format_per: The unit that `format` pays for. Default: "response".
            "response": The response: all of it, where every tag is there and an action can be read; else nothing.
            "tag": Each tag: the share of the tags that are there. That of the action counts where an action can be
                read.
        explore: The reward of exploration; none unless given.
        invalid: Added for an action that could not be carried out; -0.1 in GiGPO's scripts. Default: 0.0.
        score_of: The new score of a turn; an episode has the score of its last turn. Default: "world".
            "world": It stays the environment's own.
            "paid": The sum of the attempt's rewards up to the turn, as they are weighed here: methods that rank
                episodes by their scores (`extract`, `memory-update`) then see the pay and nothing else.
        scores: Weights of scores, by the names of the targets of `score` that made them: a learned reward, or a
            judge's. Default: {}.
        novelty: Weight of the column `novelty`, which the operator of that name makes (EMPO2, section 4.2: intrinsic
            rewards). Default: 0.0.
        overlong: The cost of a long response (DAPO, Eq. 13); nothing unless given.
        kl: The weight of the divergence from the reference as a part of the reward (REINFORCE++, Hu 2025;
            InstructGPT, Ouyang et al. 2022, Eq. 2): the sum over the response's tokens of the log-probability with
            which each was drawn, less that under the reference. So a turn also answers for how far the turns after it
            stray, which a divergence in the loss leaves out. Needs `model`. Default: 0.0.
        kl_per: The unit that is charged with that divergence. Default: "turn".
            "turn": The turn: its reward is lowered by the sum over its tokens (RLOO, Ahmadian et al. 2024, where a
                response is one action).
            "token": Each token, with its own part, in the column `token_rewards`, which `advantage` reads by `of:
                token_return` (REINFORCE++).
        model: The model that played, for `kl`.
        reference: The reference model, for `kl`; `model` as it was when the run began when left out.
        temperature: The temperature of the reference's logits, for `kl`, in place of the temperature that each row
            was drawn at (column `temperature`). When left out: that one; 1 for rows without it, as in old logs.
    """
    return made("reward", {**locals()})


def value(
    *,
    model: str,
    per: Literal["turn", "token"] = UNSET,
) -> Dict[str, Any]:
    """`value`: asks a critic for the return expected from each row's prompt.

    Inputs:
        rows: the rows to value
        weights: the update of the critic whose weights value; needed where an update trains it

    Settings:
        model: The critic: a model with `head: value`. Required.
        per: Before what a value is asked for. Default: turn.
            "turn": Each turn: one value a row, before its response.
            "token": Each token of the response: also the column `token_values`, whose first number is that of
                `value`.
    """
    return made("value", {**locals()})


def derive(
    *,
    columns: Settings,
    by: Union[List[str], None] = UNSET,
) -> Dict[str, Any]:
    """`derive`: makes columns by expressions over a row, the turns beside it, its episode and its group.

    Inputs:
        rows: whole episodes
        other: rows that sums over rows see besides, where `other` holds, and that don't come out

    Settings:
        columns: Each column with the expression that makes it, in DuckDB's SQL: arithmetic, comparisons, `case`,
            `coalesce`, lists (`[2 * x for x in token_rewards]`), and sums over rows by a window. `over episode` are
            the rows of the row's attempt, `over turns` the same in their order (`lag`, `lead`, running sums), `over
            "group"` those of its group, `over same` the row and the one of its name at `other`; any other is `over
            (partition by ... order by ...)`. All rows are of one iteration. All expressions read the rows as they
            come. A column is one that rows can have, or a number of your own, `derived_...`; it replaces one of its
            name. With `by`, `last_NAME` is an earlier value of the number NAME that this node makes. Required.
        by: The columns by which rows find the values that this node made in earlier iterations: [task] for a value a
            task, [] for one value of all. `last_NAME` is the column NAME in the last row, in the order of names, of
            the latest earlier iteration with such rows; it is null before the first. A baseline that lasts: `columns:
            { derived_mean: "coalesce(0.9 * last_derived_mean, 0) + 0.1 * avg(reward) over (partition by task)" }`,
            `by: [task]`. The node must be logged: a resumed run reads the values in the log.
    """
    return made("derive", {**locals()})


def python(
    *,
    call: Union[str, Callable[..., Any]],
    settings: Settings = UNSET,
    seconds: float = UNSET,
    memory_gb: float = UNSET,
    python: List[str] = UNSET,
    pass_: List[str] = UNSET,
    code: Union[List[Settings], None] = UNSET,
    declared: Any = UNSET,
    by: List[str] = UNSET,
    check: Literal["once", "always", "never"] = UNSET,
) -> Dict[str, Any]:
    """`python`: calls a function in Python that adds columns to rows, or keeps, drops, changes or makes rows.

    Inputs:
        rows: turns

    Settings:
        call: The function: `FILE.py:NAME`, in a file beside the pipeline, or `MODULE:NAME`, in a module that Python
            finds. It says by a decorator of `flow_op` which columns it needs and adds. A run keeps the file's text in
            `code`, and here the function's name alone. Required.
        settings: Values of the function's own settings, by their names. Default: {}.
        seconds: Seconds that the function may take for a call, after which the run ends. Default: 600.0.
        memory_gb: The most memory that its process may take, in GB of 10^9 bytes. Default: 16.0.
        python: The Python that runs it, which must have `pyarrow`: a program and its first arguments. Default:
            ["python3"].
        pass_: Environment variables of flow's own that the function sees besides those of every program
            (docs/protocol.md lists them). Default: [].
        code: The function's file and the files of its folder that it imports, as a run keeps them: the first has the
            function.
        declared: The function's own description when the run began, as the run keeps it.
        by: The columns whose equal values make a group: the function is called once a group, with all its rows of the
            iteration. Without them it is called once, with all rows. Default: [].
        check: When it is called a second time with the rows in another order, to find what depends on a clock, on
            chance without a seed, or on the order of rows. Default: "once".
            "once": Until a call has made different values for some rows: in the first iteration, mostly.
            "always": In each iteration.
            "never": In none.
    """
    return made("python", {**locals()})


def group(
    *,
    by: List[str],
    history: int = UNSET,
    early_turns: Literal["shared", "alone"] = UNSET,
    similar: Union[Settings, None] = UNSET,
) -> Dict[str, Any]:
    """`group`: groups the rows that are compared with each other.

    Inputs:
        rows: whole episodes

    Settings:
        by: The columns that are equal within a group, such as [task, state, visitation_depth]; [] makes one group of
            the whole iteration. All attempts at a task are compared unless `attempt` is among them. A reflection is
            made in no state, observation or visitation_depth: by these, reflections agree with one another alone.
            Required.
        history: Further splits these groups by where a turn comes from: so many states before its own, in their
            order, must agree too (HGPO, arXiv 2602.22817). Reflections have none. Default: 0.
        early_turns: How a turn is grouped that has fewer states before it than `history`. Default: "shared".
            "shared": By all states before it, with turns that have as many.
            "alone": Alone, so that `singleton: drop` of `advantage` leaves it out (verl-agent's HGPO).
        similar: Further splits these groups by texts that are alike: { column: observation, at_least: 0.95, autojunk:
            true }.
    """
    return made("group", {**locals()})


def advantage(
    *,
    preset: Literal["paper", "code"] = UNSET,
    of: Literal["episode_return", "step_return", "cross_episode_return", "tree_return", "reward", "gae", "token_gae", "iql", "token_return", "advantage"] = UNSET,
    gamma: float = UNSET,
    gamma_attempt: float = UNSET,
    boundary: Literal["paper", "code"] = UNSET,
    lambda_: float = UNSET,
    baseline: Literal["mean", "leave_one_out", "second_best", "ema", "none"] = UNSET,
    decay: float = UNSET,
    ema: Literal["before", "after"] = UNSET,
    scale: Literal["std", "mean", "none"] = UNSET,
    ddof: int = UNSET,
    eps: float = UNSET,
    eps_in: Literal["std", "variance", "variance_floor"] = UNSET,
    singleton: Literal["raw", "zero", "drop"] = UNSET,
    equal: Literal["keep", "drop"] = UNSET,
    unit: Literal["trajectory", "turn", "token"] = UNSET,
    invalid_penalty: float = UNSET,
    penalty: Literal["before_return", "after_return"] = UNSET,
) -> Dict[str, Any]:
    """`advantage`: how much better a row did than its group.

    Inputs:
        rows: grouped rows of whole episodes

    Settings:
        preset: The source of defaults for the fields that aren't given: the papers or the released code. Default:
            paper.
            "paper": The papers': every other field has its default.
            "code": The released code's. For returns and rewards that of GiGPO (verl-agent, whose GRPO for agents is
                the same with episodes alone): unit: turn, invalid_penalty: 0.1, penalty: after_return, and singleton:
                raw for an episode_return but zero for the others. For a cross_episode_return that of LaMer: boundary:
                code, unit: turn, and no penalty (its code takes the penalty from the episode's part alone). For an
                advantage, for gae, token_gae and token_return verl's whitening: unit: token, eps: 1e-8, eps_in:
                variance; for the gaes also lambda: 1. Everything else as published.
        of: The value of a row. Default: episode_return.
            "episode_return": The sum of the trajectory's rewards (EMPO2, section 2: GRPO).
            "step_return": The discounted sum of the rewards from this turn on (GiGPO; SLEA-RL, Eq. 5; EAPO, Eq. 4).
            "cross_episode_return": The discounted sum of the rewards from this turn on, to the end of the trial: of
                this attempt and of those after it (LaMer, Eq. 4). A reflection is worth what the first turn of the
                next attempt is (section 4: it is trained by the reward of the next episode).
            "tree_return": Where episodes branch (`branch` of `rollout`): the reward of this turn and the discounted
                mean over the answers to the next prompt, each worth its own tree_return: the episode's next turn, and
                the branches that begin there (AT2PO, arXiv 2601.04767). step_return is the return of the row's own
                sample alone.
            "reward": The reward of the turn alone (EAPO, Eq. 14 read literally).
            "gae": Generalised advantage estimation from a critic's column `value` (PPO; Schulman et al. 2016). Also
                makes `value_target`.
            "token_gae": The same from token to token, from the column `token_values` (PPO as language models are
                trained with it). Also makes `token_advantages` and `token_targets`.
            "iql": The target of each token's value in implicit Q-learning, from the column `token_values` (Kostrikov
                et al. 2022; Retrospex). Also makes `token_advantages` and `token_targets`.
            "token_return": The discounted sum of the rewards from this token on: the turn's with its last token, and
                those of the column `token_rewards`, such as a divergence by `reward` with `kl_per: token`
                (REINFORCE++). Makes `token_advantages`.
            "advantage": The advantage that a node upstream made, to be compared once more (the second step of
                REINFORCE++ with baseline).
        gamma: The discount of step_return, tree_return, cross_episode_return, gae and iql from one turn to the next,
            of token_gae and token_return from one token to the next, from 0 to 1. Default: 1.
        gamma_attempt: The discount of cross_episode_return from one attempt at a task to the next, from 0 to 1.
            Default: 0.6 (LaMer, section 5.1).
        boundary: How cross_episode_return goes from one attempt to the one before it. Default: paper.
            "paper": gamma_attempt once for each attempt on the way, wherever in its own attempt the turn stands
                (LaMer, Eq. 4).
            "code": Also gamma for each turn that is left in the turn's own attempt: one pass from the end, in LaMer's
                released code.
        lambda_: How far gae and token_gae look past the critic: 0 one step, 1 to the end. Default: 0.95 (PPO,
            Schulman et al. 2017, Table 3; verl: 1).
        baseline: The baseline that is subtracted. Default: mean.
            "mean": The group's mean (GRPO: SLEA-RL, section 3).
            "leave_one_out": The mean of the others in the group (RLOO: Ahmadian et al. 2024).
            "second_best": The second best value from the best of the group, and from each other one its own value:
                only the best has an advantage, best less second best (Tang et al. 2025, arXiv 2503.19595; verl's
                grpo_passk). Of two that are equally good neither has one.
            "ema": A running mean of the group's values over iterations, which begins at 0: running = decay * running
                + (1 - decay) * mean (RAE of SPIRAL, arXiv 2506.24119). Group by a column that lasts, such as
                `[type]`; nothing else is compared, so `scale: none`. Makes the column `running`.
            "none": Nothing (REINFORCE).
        decay: How much `baseline: ema` keeps of its running mean in an iteration, from 0 to 1. Default: 0.95
            (SPIRAL).
        ema: Which running mean `baseline: ema` subtracts. Default: before.
            "before": The one before the iteration, which its values have no part in (prime-rl).
            "after": The one after it.
        scale: The divisor of the difference. Default: std.
            "std": The group's standard deviation, kept above 0 by eps (GRPO; EAPO, Eq. 14). Equal values without a
                baseline are not divided.
            "mean": The group's mean, kept above 0 by eps (MaxRL, arXiv 2602.02710: for returns of 0 and 1 the share
                that was won, so that rare wins weigh more). It is defined for returns from 0 on: a group with a
                return below 0 is not divided, its `scale` is 1, and the metric `undivided` counts it.
            "none": One (Dr.GRPO: Liu et al. 2025; GiGPO's variant without std).
        ddof: The standard deviation divides by n - ddof: 1 for the sample's (papers and PyTorch), 0 for the
            population's (NumPy). Default: 1.
        eps: A constant that keeps the divisor away from 0; where it is 0 all the same, nothing is divided. Default:
            1e-6.
        eps_in: Where eps stands. Default: std.
            "std": std + eps (verl's GRPO; papers divide by the std alone).
            "variance": sqrt(variance + eps) (verl's whitening, with eps 1e-8).
            "variance_floor": sqrt(max(variance, eps)) (OpenRLHF's whitening, with eps 1e-8 and ddof 0).
        singleton: How a row is treated that has no other row to compare with. Default: zero.
            "raw": Baseline 0 and scale 1: the value itself is the advantage (GRPO in verl, which divides it by 1 +
                eps besides).
            "zero": The value is its own baseline: the advantage is 0 (the step advantage in GiGPO's code).
            "drop": As zero, and the row isn't trained on.
        equal: How a group is treated when all its values are equal. Default: keep.
            "keep": It is trained on: with a baseline its advantages are 0, and only a divergence from the reference
                moves the weights.
            "drop": Its rows aren't trained on (DAPO: Yu et al. 2025, section 3.2); `used` says dropped_equal_rewards.
        unit: How often a row counts in the statistics of its group. Default: trajectory.
            "trajectory": An episode's return once a trajectory, as published. (With after_return, its rows can
                differ: their mean counts.)
            "turn": Once a turn, as in GiGPO's released code, so that long trajectories weigh more.
            "token": Once a response token (REINFORCE++: verl and OpenRLHF whiten over all response tokens of a
                batch).
        invalid_penalty: The cost of an invalid action; GiGPO's scripts use 0.1. Default: 0.
        penalty: When that is subtracted. Default: before_return.
            "before_return": From the turn's reward: part of every return that the turn is in, like any other reward.
            "after_return": From the row's value only, as in GiGPO's released code: the turns before it don't feel it.
    """
    return made("advantage", {**locals()})


def concat() -> Dict[str, Any]:
    """`concat`: the rows of several nodes as one, such as of rollouts in several environments.

    Inputs:
        any other name: rows of different tasks, with the same columns
    """
    return made("concat", {})


def combine(
    *,
    weights: Settings = UNSET,
    over: Literal["all", "used"] = UNSET,
) -> Dict[str, Any]:
    """`combine`: a weighted sum of advantages over the same rows.

    Inputs:
        any other name: rows with an advantage; the first input's other columns are kept

    Settings:
        weights: The weight of each input, by its name; 1 unless given. Default: {}.
        over: The terms of a row's sum. Default: "all".
            "all": All inputs, each by its weight. A row that one of them drops is dropped.
            "used": The inputs that use the row, by weights that are divided by their sum: their weighted mean (HGPO,
                arXiv 2602.22817). An `advantage` with `singleton: drop` so says nothing of a row that it has nothing
                to compare with. A row is dropped that all of them drop.
    """
    return made("combine", {**locals()})


def gpu_update(
    *,
    model: str,
    objective: Literal["policy_gradient", "sft", "reinforce", "value", "distill"] = UNSET,
    lr: float = UNSET,
    warmup: int = UNSET,
    schedule: Literal["constant", "linear", "cosine"] = UNSET,
    decay_steps: Union[int, None] = UNSET,
    lr_end: float = UNSET,
    clip: float = UNSET,
    clip_high: Union[float, None] = UNSET,
    surrogate: Union[Literal["clip", "cispo", "sapo", "gmpo", "dppo", "kl_cov", "clip_cov", "vespo"], Settings] = UNSET,
    gate: float = UNSET,
    gate_below: float = UNSET,
    region: Literal["tv", "kl"] = UNSET,
    covary: float = UNSET,
    covary_kl: float = UNSET,
    covary_above: float = UNSET,
    covary_below: float = UNSET,
    power: List[float] = UNSET,
    damping: List[float] = UNSET,
    ratio: Literal["token", "sequence"] = UNSET,
    old: Union[Literal["recorded", "recomputed"], None] = UNSET,
    truncate: float = UNSET,
    dual_clip: Union[float, None] = UNSET,
    value_clip: float = UNSET,
    expectile: float = UNSET,
    beta: Union[float, None] = UNSET,
    divergence: Literal["reverse_kl", "forward_kl", "jsd"] = UNSET,
    top_k: Union[int, None] = UNSET,
    weigh_by: Union[str, None] = UNSET,
    kl: float = UNSET,
    entropy: float = UNSET,
    kl_kind: Literal["k1", "k2", "k3", "abs"] = UNSET,
    reference: Union[str, None] = UNSET,
    reference_ema: Union[float, None] = UNSET,
    aggregation: Literal["token_mean", "seq_mean_token_sum", "seq_mean_token_mean", "seq_mean_token_sum_norm", "trajectory_mean_token_mean", "trajectory_mean_turn_mean"] = UNSET,
    norm: Union[float, None] = UNSET,
    epochs: int = UNSET,
    minibatch: int = UNSET,
    remainder: Literal["keep", "drop"] = UNSET,
    mask_below: Union[float, None] = UNSET,
    mask_unit: Literal["token", "row"] = UNSET,
    mask_from: Literal["current", "start"] = UNSET,
    mask_drift: Union[float, None] = UNSET,
    tokens: Literal["all", "chosen"] = UNSET,
    micro_batch: int = UNSET,
    micro_tokens: Union[int, None] = UNSET,
    max_grad_norm: float = UNSET,
    betas: List[float] = UNSET,
    eps: float = UNSET,
    weight_decay: float = UNSET,
    weight_decay_of: Settings = UNSET,
    temperature: Union[float, None] = UNSET,
    invalid: Literal["keep", "drop"] = UNSET,
    truncated: Literal["keep", "drop"] = UNSET,
    max_staleness: Union[int, None] = UNSET,
    from_attempt: Union[int, None] = UNSET,
    side: List[str] = UNSET,
    tips: Union[Settings, None] = UNSET,
    token_figures: bool = UNSET,
) -> Dict[str, Any]:
    """`gpu-update`: learns from the iteration's rows and makes the next version of the weights.

    Inputs:
        rows: the rows to learn from
        weights: another update of the same model that goes first; two updates of one model need an order

    Settings:
        model: The model that learns. Required.
        objective: The objective. Default: "policy_gradient".
            "policy_gradient": The clipped policy gradient of PPO, from the rows' advantages.
            "sft": Cross-entropy of the responses: supervised learning. Over the whole vocabulary for a row without
                choices, over what they allow for one with.
            "reinforce": REINFORCE (Williams 1992) towards a posterior, as EAPO learns q(e, m | s) (Eq. 8): a row's
                loss is -(beta A - kl (log q - log p)) log q, where A is the row's advantage, q the model, p the
                reference, and the bracket is a number that no gradient goes through. The row need not have been drawn
                by the model. The log-probabilities are the sums over the row's tokens by `aggregation:
                seq_mean_token_sum`, their means by `seq_mean_token_mean`: one of the two must be said.
            "value": The clipped value loss of PPO's code: a critic (a model with a value head) learns the rows' value
                targets.
            "distill": Distillation (GKD, Agarwal et al. 2024): at each response token, the divergence between what
                the policy and what a teacher could have written there. The teacher is `reference`, `reference_ema`,
                or the model as it was when the run began. It reads the same prompt, or that of the column
                `teacher_tokens` where rows have it. No token's distribution is logged: the teacher is computed in
                each forward pass.
        lr: Learning rate of AdamW. Default: 1e-06.
        warmup: Linear warm-up: over this many optimiser steps, from the start of the run, the learning rate rises
            linearly to `lr`. Default: 0.
        schedule: The schedule of the learning rate after the warm-up, until `decay_steps`. Default: "constant".
            "constant": Constant.
            "linear": Linear decay.
            "cosine": Cosine decay.
        decay_steps: The optimiser step of the run at which the decay of the learning rate ends; from there on it
            stays constant.
        lr_end: The learning rate after the decay, as a fraction of `lr`. Default: 0.0.
        clip: The ratio is clipped to 1 - clip from below, and to 1 + clip from above unless `clip_high` is given.
            Default: 0.2.
        clip_high: The ratio is clipped to 1 + clip_high from above.
        surrogate: How a token's ratio and advantage become its loss: by one of these names, or by a function in
            Python, as in `surrogate: { call: my_loss.py:loss }`. The function gives a loss a token; what else is in
            the loss, masks and weights stay as the other settings say. Default: "clip".
            "clip": The lesser of the ratio times the advantage and the clipped ratio times the advantage (PPO,
                Schulman et al. 2017, Eq. 7).
            "cispo": The clipped ratio, which no gradient goes through, times the advantage times the log-probability
                (CISPO of MiniMax-M1, arXiv 2506.13585): a token beyond the clip still learns. The paper has no lower
                bound: `clip: 1`.
            "sapo": A gate in place of the clip, 4 / tau sigmoid(tau (ratio - 1)), times the advantage (SAPO, arXiv
                2511.20347): its slope is 1 at a ratio of 1, and falls on either side.
            "gmpo": The geometric mean of a row's ratios, each clipped beforehand, times the advantage (GMPO, arXiv
                2507.20673). `clip` and `clip_high` bound the logarithm of a ratio, 0.4 each in the paper. A mean over
                rows: `aggregation: seq_mean_token_mean`.
            "dppo": The ratio times the advantage, without a clip. A token is masked whose probability has gone the
                way of its advantage by more than `clip_high` upwards or `clip` downwards, measured by `region` (DPPO,
                arXiv 2602.04879; prime-rl's default loss, with 0.2).
            "kl_cov": The ratio times the advantage, without a clip. Of the tokens whose log-probability and advantage
                lie above the means together the most, the share `covary`, |log ratio| is added to the loss (KL-Cov,
                arXiv 2505.22617). A log ratio within 1e-5 of 0 has no slope. The tokens are chosen once an update,
                among all that the policy chose, by the log-probabilities that were recorded; verl chooses anew in
                each forward pass. Where the sampler's numbers differ by more than rounding (a server, bf16), use
                `old: recomputed`.
            "clip_cov": As `clip`, but the share `covary` of the tokens learns nothing: drawn at random among those
                whose covariance, as of `kl_cov`, lies between `covary_above` and `covary_below` (Clip-Cov, arXiv
                2505.22617). They are drawn once an update, before a ratio is known, so some are tokens that the clip
                decides besides; verl draws among the others.
            "vespo": phi(W) times the advantage times the log-probability, where W is the product of a row's ratios
                and phi(W) = W^k exp(lambda (1 - W)) a number that no gradient goes through (VESPO, arXiv 2602.10693;
                TRL): 1 at W = 1, and near 0 far from it on either side. `power` is k, `damping` lambda.
        gate: tau of `surrogate: sapo` where the advantage is above 0. Default: 1.0.
        gate_below: tau where it isn't: 1.05 in the paper, so that such tokens are let go of sooner. Default: 1.05.
        region: How `surrogate: dppo` measures how far a token's probability has gone. Default: "tv".
            "tv": The difference of the two probabilities (DPPO-Binary-TV).
            "kl": The divergence, in nats, between the old choice of this token or any other and the new one
                (DPPO-Binary-KL).
        covary: The share of the tokens that `surrogate: kl_cov` holds back and `clip_cov` leaves out, at least one
            token; 2e-3 in verl's recipe of the first for 7 billion weights, 2e-4 for 32 and for the second. Default:
            0.0002.
        covary_kl: The weight of |log ratio| of those tokens; 1 in the paper. Default: 1.0.
        covary_above: The least covariance of the tokens that `surrogate: clip_cov` draws from; 1 in verl. Default:
            1.0.
        covary_below: The largest; 5 in verl. Default: 5.0.
        power: k of `surrogate: vespo`: where the advantage is not negative, and where it is. 2 and 3 in TRL. Default:
            [2.0, 3.0].
        damping: lambda of it likewise; 3 and 2 in TRL. Default: [3.0, 2.0].
        ratio: The ratio that is clipped: each token's, or one a row. Default: "token".
            "token": Of each token's probabilities (PPO, GRPO).
            "sequence": The geometric mean of the row's token ratios (GSPO, Zheng et al. 2025, Eq. 7), with clips of
                3e-4 and 4e-4 in its section 5.1. Its objective (Eq. 5) is a mean over rows: `aggregation:
                seq_mean_token_mean`.
        old: The denominator of a ratio: the recorded log-probabilities, or recomputed ones with an importance weight
            a token. When left out: recorded ones, and recomputed ones where the acting weights are rounded and the
            learning ones aren't (`act: int8` of a model).
            "recorded": The log-probabilities that the policy recorded when it acted (PPO).
            "recomputed": Those under the weights that the update starts from. Each token is then weighted by how much
                likelier these weights make it than the policy that acted did, at most `truncate` times: decoupled PPO
                (Hilton et al. 2022) with truncated importance sampling (Ionides 2008; Yao et al. 2025).
        truncate: The most that such an importance weight may be; 2 as in released code (SkyRL's scripts, verl's
            documentation). Default: 2.0.
        dual_clip: Where the advantage is negative, the loss of a token is at most this many times its size (Ye et al.
            2020: 3, as in verl; EMPO2's scripts: 10). No bound when left out, as in PPO, GRPO, DAPO and RLOO.
        value_clip: A critic's values count as at most this far from the recorded ones, in units of the return; 0
            leaves them alone. OpenAI Baselines: the clip of the ratio, 0.2; verl: 0.5. Default: 0.2.
        expectile: A critic learns this expectile of its targets in a state, in place of the mean: above 0.5 it goes
            towards the best return seen there (implicit Q-learning, Kostrikov et al. 2022, Eq. 5; 0.7 in Retrospex's
            code). It has no effect on the value of a written action, which is before the last token of a response:
            that learns the mean. Default: 0.5.
        beta: The weight of the advantage by `objective: reinforce`, 1 when left out; the teacher's share of the
            mixture by `divergence: jsd`, 0.5. EAPO's paper names the first without a number; its released code has 1
            for it and for `kl`.
        divergence: The divergence of `objective: distill`. Default: "reverse_kl".
            "reverse_kl": KL(p || q), the sum of p (ln p - ln q): seeks a mode of the teacher (OPD, OPSD, SDPO).
            "forward_kl": KL(q || p), the sum of q (ln q - ln p): covers all that the teacher would write.
            "jsd": The generalised Jensen-Shannon divergence (GKD, Eq. 1; TRL's `beta`): beta KL(q || m) + (1 - beta)
                KL(p || m), with m = beta q + (1 - beta) p.
        top_k: How many tokens are compared at each token: the teacher's likeliest, and all others together as one
            more. It is at most the divergence over the whole vocabulary, which counts when this is left out: what the
            policy makes of the others is seen in their sum alone. A sum below 1e-7 counts as that.
        weigh_by: A column that weighs each token's loss by `objective: distill` and `sft`: one number for the row, or
            a list with one for each token. 0 learns nothing there (the gate of SDAR, arXiv 2605.15155); means still
            count the token.
        kl: Weight of the divergence from the reference model. Default: 0.0.
        entropy: Weight of an entropy bonus: the entropy, in nats, of the distribution that a token was drawn from is
            multiplied by it and subtracted from the token's loss. Default: 0.0.
        kl_kind: How that divergence is estimated. Default: "k3".
            "k1": d. Its expected gradient is zero, so it does not restrain the policy; use it for reporting.
            "k2": d^2 / 2
            "k3": exp(-d) + d - 1
            "abs": |d|, without a slope within 1e-5 of 0
        reference: The reference model; the same model as it was when the run began when left out.
        reference_ema: The reference is a mean of the model's versions, which keeps this share of itself at each
            update (an exponential moving average). Then comes the rest of the version that the update made; 0.95 in
            SDPO. The mean begins as the model was when the run began, is saved with each version, and takes the
            memory of one more copy of the weights that are trained. By 0 it is the version that the update made last.
        aggregation: How the losses of tokens become one number. Default: "token_mean".
            "token_mean": Mean over all response tokens.
            "seq_mean_token_sum": Sum over a response's tokens, mean over rows.
            "seq_mean_token_mean": Mean over a response's tokens, mean over rows.
            "seq_mean_token_sum_norm": Sum over a response's tokens, mean over rows, divided by a constant (`norm`):
                Dr.GRPO.
            "trajectory_mean_token_mean": Mean over all tokens of a trajectory's responses, mean over trajectories:
                1/G sum of 1/|a_i| (EAPO, Eq. 2). A trajectory is an attempt: those of its rows that are in the
                optimiser step.
            "trajectory_mean_turn_mean": Sum over a response's tokens, mean over a trajectory's turns, mean over
                trajectories: 1/G sum of 1/T (SLEA-RL, Eq. 7, where a step is a turn).
        norm: The constant of `seq_mean_token_sum_norm`; the longest response of the update when left out.
        epochs: Passes over the rows. Default: 1.
        minibatch: Rows of one optimiser step, drawn without replacement; 0 takes all rows in one step. Default: 0.
        remainder: How rows are treated that don't fill a minibatch: kept as a smaller one, or dropped with the reason
            `remainder`. Default: "keep".
            "keep": They are a smaller minibatch.
            "drop": They are left out, the same ones in every epoch.
        mask_below: A response token whose probability is below this is masked: EMPO2, section 4.2. `mask_from` sets
            the weights and the sums. A row that is left without a token to learn has the reason
            `masked_low_probability`.
        mask_unit: The part that such a token masks: itself, or its row. Default: "token".
            "token": Itself (the paper, section 4.2).
            "row": The whole row (the released code, with a log-probability of -5: `mask_below: 0.0067`).
        mask_from: By which weights a token is improbable, and what it is left out of. Default: "current".
            "current": By those of each optimiser step, and out of the policy's term alone: the divergence counts it,
                and means divide by all tokens (the paper, Eq. 2).
            "start": By the log-probabilities at the update's start, and out of everything: the loss, the divergence,
                any mean (the released code).
        mask_drift: Tokens with a negative advantage are masked, out of the policy's term alone, in a row that became
            less likely than when it was sampled by more than this: by the mean over its tokens of log acted - log new
            (DeepSeek-V3.2, off-policy sequence masking). Their share counts as clipped.
        tokens: Which response tokens take part (in the loss, the KL term, any mean): all, or tokens that were chosen
            among several. By `chosen` a row without a choice has the reason `forced`. Default: "all".
            "all": All, forced ones too: they make every mean over tokens smaller and GSPO's length longer.
            "chosen": Tokens that were chosen among several.
        micro_batch: Rows of one forward pass: bounds memory and moves the result by rounding only. Default: 64.
        micro_tokens: Tokens of one forward pass, common beginnings of its rows counted once: a step's gradient is
            added up over as many passes as that makes. A row that is longer is a pass of its own.
        max_grad_norm: A gradient whose norm is larger is scaled down to it; 0 leaves it alone. Default: 1.0.
        betas: Decay rates of AdamW's two moments. Default: [0.9, 0.999].
        eps: AdamW's epsilon: without it a weight that never had a gradient would step by 0 / 0. Default: 1e-08.
        weight_decay: AdamW's weight decay: of matrices and embeddings, not of the gains of the norms. Default: 0.01.
        weight_decay_of: Other weight decays, by a part of parameters' names: `{ embed_tokens: 0, lora_B: 0.1 }`; the
            longest part that fits counts.
        temperature: The temperature of the logits, in place of the temperature that each row was drawn at (column
            `temperature`). When left out: that one; 1 for rows without it, as in old logs, and where `sft` imitates.
        invalid: Whether rows whose column `valid` is false are learnt from; if not, their reason is `invalid`.
            Default: "keep".
            "keep": Like any other row.
            "drop": They are left out.
        truncated: Whether turns of episodes are learnt from that the environment or `max_turns` cut before their end;
            if not, their reason is `truncated`. Default: "keep".
            "keep": Like any others.
            "drop": All of their turns are left out.
        max_staleness: Rows made by weights that are more versions behind those the update starts from are left out,
            with the reason `too_stale`. Every update of the model makes one version: where two nodes update it in an
            iteration, rows played by its newest weights are one version behind for the second node.
        from_attempt: Turns of earlier attempts are left out, with the reason `earlier_attempt`: 1 where the first
            attempt is what the others are to learn from. Reflections are not left out.
        side: Models, as an agent program named them in its calls, whose rows are left out, with the reason
            `side_call`: titles, summaries and what else a program asks beside its task.
        tips: How an update treats retrieved entries in its prompts; they stay when left out.
        token_figures: Each row also has the ratio, the entropy and the gradient of each of its tokens: twelve bytes a
            token before they are packed. Default: false.
    """
    return made("gpu-update", {**locals()})


def evaluate(
    *,
    agent: Union[str, Settings],
    panel: str,
    temperature: Union[float, None] = UNSET,
    tries: int = UNSET,
    every: int = UNSET,
    samples: int = UNSET,
    attempts: int = UNSET,
    reflect: Union[Settings, None] = UNSET,
    seed: int = UNSET,
) -> Dict[str, Any]:
    """`evaluate`: plays a frozen panel of tasks every few iterations.

    Inputs:
        weights: the update whose weights are measured; needed where one trains the model
        any other name: a memory, by the name that the agent's context has for it, or the update of a model of its
            `by_name`, by the model's name

    Settings:
        agent: The agent that plays. Required.
        panel: The file of a frozen panel. Required.
        temperature: The temperature at which it samples here, if not its own; 0 takes the likeliest.
        tries: How often an episode is played before it is given up as failed. A later try that succeeds gives the
            rows that the first would have given. Default: 2.
        every: Measures at iterations 0, `every`, 2 * `every` and, where an update gives the weights, at the end.
            Default: 10.
        samples: Trajectories a task. Default: 1.
        attempts: Attempts at a task, until one succeeds: pass@1 up to pass@k. Default: 1.
        reflect: With several attempts, how those before are reflected on, at the temperature of this evaluation
            unless given another; without it, there is no reflection.
        seed: The seed of its random numbers: the same for every run unless given, so that two runs are measured with
            the same numbers. Default: 0.
    """
    return made("evaluate", {**locals()})
