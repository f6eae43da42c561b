"""What transformers reads in the files of a model: configurations, tokenizers and chat templates, a hundred and more. It writes
tests/golden/files.json, which `cargo test transformers_reads` compares with what this program reads. No PyTorch is needed:

    python3 -m venv VENV && VENV/bin/pip install transformers==5.24.0 jinja2==3.1.6 && VENV/bin/python scripts/parity_files.py
"""

import copy
import datetime
import json
import pathlib
import sys
import tempfile

import transformers
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import chat_template_utils

transformers.logging.set_verbosity(50)
ROOT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"


class Day(datetime.datetime):
    """The day that chat templates are told here."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


chat_template_utils.datetime = Day


# Configurations: the smallest of each architecture, with what makes it hard to read.
def base(kind, **more):
    sizes = dict(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    return dict(model_type=kind, **{**sizes, **more})


YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", factor=2.0)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)


def configurations():
    cases = {}
    for kind in ("llama", "qwen2", "qwen3"):
        heads = dict(num_key_value_heads=2)

        def add(name, drop=(), **more):
            config = base(kind, **{**heads, "max_position_embeddings": 256, "rope_theta": 50_000.0, **more})
            cases[f"{kind}: {name}"] = {key: value for key, value in config.items() if key not in drop}

        add("plain")
        add("nothing that has a default", drop=("num_key_value_heads", "max_position_embeddings", "rope_theta"), num_attention_heads=32)
        add("key heads null", num_key_value_heads=None)
        add("head_dim", head_dim=32)
        add("head_dim null", head_dim=None)
        add("swish", hidden_act="swish")
        add("gelu", hidden_act="gelu")
        add("tied", tie_word_embeddings=True)
        add("eps", rms_norm_eps=1e-5)
        add("biases", attention_bias=True, mlp_bias=True)
        add("no theta", drop=("rope_theta",))
        add("rope_scaling null", rope_scaling=None)
        add("rope_scaling empty", rope_scaling={})
        add("linear", rope_scaling=LINEAR)
        add("linear by its old name", rope_scaling=dict(type="linear", factor=2.0))
        add("linear without a factor", rope_scaling=dict(rope_type="linear"))
        add("linear by both names", rope_scaling=dict(type="linear", rope_type="linear", factor=2.0))
        add("names that differ", rope_scaling=dict(type="yarn", rope_type="linear", factor=2.0))
        add("names that differ, turned", rope_scaling=dict(type="linear", rope_type="default", factor=2.0))
        add("llama3", rope_scaling=dict(rope_type="llama3", **LLAMA3))
        add("llama3 by both names", rope_scaling=dict(type="llama3", rope_type="llama3", **LLAMA3))
        add("llama3 without its origin", rope_scaling={k: v for k, v in dict(rope_type="llama3", **LLAMA3).items() if "original" not in k})
        add("llama3 with an origin outside", original_max_position_embeddings=32, rope_scaling=dict(rope_type="llama3", **LLAMA3))
        add("llama3 with its origin only outside", original_max_position_embeddings=32,
            rope_scaling={k: v for k, v in dict(rope_type="llama3", **LLAMA3).items() if "original" not in k})
        add("llama3 without a factor", rope_scaling=dict(rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0))
        add("parameters", drop=("rope_theta",), rope_parameters=dict(rope_type="default", rope_theta=7_000.0))
        add("parameters beside a theta", rope_parameters=dict(rope_type="default", rope_theta=7_000.0))
        add("parameters without theta", rope_parameters=dict(rope_type="default"))
        add("parameters, linear", rope_parameters=dict(rope_theta=7_000.0, **LINEAR))
        add("parameters null", rope_parameters=None)
        add("parameters beside linear", rope_parameters=dict(rope_type="default", rope_theta=7_000.0), rope_scaling=LINEAR)
        add("parameters beside linear without theta", drop=("rope_theta",), rope_scaling=LINEAR,
            rope_parameters=dict(rope_type="default", rope_theta=7_000.0))
        add("parameters beside yarn", rope_parameters=dict(rope_type="default", rope_theta=7_000.0), rope_scaling=YARN)
        add("yarn in parameters beside linear", rope_parameters=dict(rope_theta=7_000.0, **YARN), rope_scaling=LINEAR)
        add("parameters beside empty", rope_parameters=dict(rope_theta=7_000.0, **LINEAR), rope_scaling={})
        add("scaling with its own theta", rope_scaling=dict(rope_theta=9_000.0, **LINEAR))
        add("yarn", rope_scaling=YARN)
        add("dynamic", rope_scaling=dict(rope_type="dynamic", factor=2.0))
        add("a part is turned", partial_rotary_factor=0.5)
        add("all of it is turned", partial_rotary_factor=1.0)
        add("windows, switched off", use_sliding_window=False, sliding_window=16, max_window_layers=1)
        add("windows behind the last block", use_sliding_window=True, sliding_window=16, max_window_layers=2)
        add("windows that slide", use_sliding_window=True, sliding_window=16, max_window_layers=1)
        add("windows without a size", use_sliding_window=True, sliding_window=None, max_window_layers=0)
        add("windows by default", use_sliding_window=True)
        add("layer types", layer_types=["full_attention", "full_attention"])
        add("layer types null", layer_types=None, use_sliding_window=True, sliding_window=16, max_window_layers=2)
        add("layer types against windows", layer_types=["full_attention", "full_attention"], use_sliding_window=True, max_window_layers=0)
        add("dtype beside torch_dtype", dtype="bfloat16", torch_dtype="float32")
    return cases


def read(config):
    """What the fields come to; None where transformers itself refuses."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        try:
            loaded = AutoConfig.from_pretrained(folder)
            rope = dict(loaded.rope_parameters or {})
        except Exception:
            return None
    kinds = getattr(loaded, "layer_types", None) or []
    window = getattr(loaded, "sliding_window", None)
    llama = loaded.model_type == "llama"
    return dict(
        vocab=loaded.vocab_size,
        width=loaded.hidden_size,
        layers=loaded.num_hidden_layers,
        heads=loaded.num_attention_heads,
        kv_heads=loaded.num_key_value_heads,
        head=getattr(loaded, "head_dim", None) or loaded.hidden_size // loaded.num_attention_heads,
        hidden=loaded.intermediate_size,
        context=loaded.max_position_embeddings,
        eps=loaded.rms_norm_eps,
        act="silu" if loaded.hidden_act == "swish" else loaded.hidden_act,
        tied=loaded.tie_word_embeddings,
        qkv=loaded.model_type == "qwen2" or loaded.attention_bias,
        out=loaded.model_type != "qwen2" and loaded.attention_bias,
        mlp=llama and loaded.mlp_bias,
        slides=not llama and window is not None and any(kind != "full_attention" for kind in kinds),
        rope={key: value for key, value in rope.items() if key != "type"},
    )


# Chat templates: each is rendered for each conversation that it is meant for.
def say(role, content):
    return dict(role=role, content=content)


CONVERSATIONS = dict(
    user=[say("user", " Where is the <key>? \n")],
    system=[say("system", "Be 'brief' & kind."), say("user", "Go")],
    turns=[say("user", "a"), say("assistant", "b\n"), say("user", "c")],
    empty=[say("system", ""), say("user", "é\u2028漢 \"q\"")],
)

CHATML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
OPEN = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
ANSWER = "{% if m.role == 'assistant' %}%s{{ m.content }}%s{% else %}[{{ m.content }}]{% endif %}"


def templates():
    def each(body):
        return "{% for m in messages %}" + body + "{% endfor %}"

    def marked(begin, end):
        return each("{% if m.role == 'assistant' %}" + begin + "{{ m.content }}" + end + "{% else %}[{{ m.content }}]{% endif %}") + OPEN

    return {
        "chatml": CHATML + OPEN,
        "generation": marked("{% generation %}", "{% endgeneration %}"),
        "generation with dashes": marked(" {%- generation -%} ", " {%- endgeneration -%} "),
        "generation without spaces": marked("{%generation%}", "{%endgeneration%}"),
        "generation on lines": each("\n  {% generation %}\n  {{ m.content }}\n  {% endgeneration %}\nx\n"),
        "generation keeps what is set in it": each("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"),
        "generation with a namespace": "{% set n = namespace(x=0) %}" + each("{% generation %}{% set n.x = n.x + 1 %}{% endgeneration %}") + "{{ n.x }}",
        "the day": "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%Y-%m-%d') }}|{{ strftime_now('%B %d, %Y') }}|{{ strftime_now('%A %a %j %y') }}",
        "the day and its time": "{{ strftime_now('%H:%M:%S %I %p') }}|{{ strftime_now('%-d.%-m. 100%%') }}|{{ strftime_now('%e %F %D %T %h') }}",
        "the day where it is known": "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}?{% endif %}",
        "tools are none": "{% if tools is not none %}tools{% elif tools %}some{% else %}no{% endif %}{{ tools is defined }}{{ documents is none }}",
        "tools by length": "{% if tools is not none and tools | length > 0 %}tools{% endif %}none",
        "refusal of a system": "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML,
        "roles alternate": "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}",
        "tokens by name": "{{ bos_token }}" + CHATML + "{{ eos_token }}{{ pad_token }}",
        "an unknown name": "{{ nothing }}x{{ messages[0].nothing }}",
        "an unknown name of an unknown one": "{{ nothing.at_all }}x",
        "trim": each("{{ m.content | trim }}|{{ m.content.strip() }}|{{ m['content'].rstrip() }}|{{ m.content.lstrip() }}\n"),
        "blocks trimmed": "{% for m in messages %}\n    {% if m.role == 'user' %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\nend",
        "dashes": "{%- for m in messages -%}\n  {{- m.role }} : {{ m.content -}}\n{%- endfor -%}\n",
        "loops": each("{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}"),
        "neighbours": each("{{ loop.previtem.role if loop.previtem }}>{{ loop.nextitem.role if loop.nextitem }};"),
        "loop control": "{% for m in messages %}{% if m.role == 'assistant' %}{% continue %}{% endif %}{{ m.content }}{% break %}{% endfor %}",
        "reversed": "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}{{ messages | map(attribute='role') | list | join(',') }}",
        "slices": "{{ messages[-1].content }}{{ messages[:1][0].role }}{{ messages[0].content[1:3] }}{{ messages | length }}",
        "selected": "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('+') }}"
        "{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}",
        "json": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
        "json in ascii": "{{ messages | tojson(ensure_ascii=True) }}",
        "json sorted": "{{ {'b': 1, 'a': [1, 2]} | tojson(sort_keys=True) }}",
        "json with separators": "{{ {'b': 1, 'a': [1, 2]} | tojson(separators=(',', ':')) }}",
        "json of numbers": "{{ [1, 1.0, 1.5, 1e20, true, none, 'a/b', '\\u00e9'] | tojson }}",
        "macros": "{% macro say(m, mark='#') %}{{ mark }}{{ m.role }}{% endmacro %}" + each("{{ say(m) }}{{ say(m, mark='!') }}"),
        "namespace": "{% set ns = namespace(last=-1, text='') %}" + each("{% set ns.last = loop.index0 %}{% set ns.text = ns.text ~ m.role %}")
        + "{{ ns.last }}{{ ns.text }}",
        "scope of a loop": "{% set x = 0 %}" + each("{% set x = x + 1 %}{{ x }}") + "{{ x }}",
        "set block": "{% set text %}{{ messages[0].content }}!{% endset %}{{ text }}{{ text | length }}",
        "tests": each("{{ m.content is string }}{{ m is mapping }}{{ m.content is iterable }}{{ m.x is defined }}{{ 3 is odd }}{{ none is none }}"),
        "in": each("{{ 'a' in m.content }}{{ 'role' in m }}{{ m.role not in ['user', 'tool'] }}"),
        "methods": each("{{ m.role.upper() }}{{ m.role.title() }}{{ m.content.startswith(' W') }}{{ m.content.split(' ')[-1] }}"
                        "{{ m.content.replace('a', 'b') }}{{ m.content.find('e') }}{{ m.get('x', 'none') }}"),
        "items": each("{% for key, value in m.items() %}{{ key }}={{ value }};{% endfor %}"),
        "a dictionary's order": "{% for key, value in {'z': 1, 'a': 2} | items %}{{ key }}{{ value }}{% endfor %}",
        "filters": each("{{ m.role | capitalize }}{{ m.content | default('x') }}{{ m.content | length }}{{ m.role | first }}{{ m.role | last }}"
                        "{{ m.content | replace('\\n', '/') }}{{ m.content | upper }}"),
        "arithmetic": "{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 3 }}{{ 7 / 2 }}{{ 1 + 1.5 }}{{ 'ab' * 2 }}{{ [1] + [2] }}{{ -3 // 2 }}",
        "python formats": "{{ '%s: %s' | format('a', 1) }}{{ '{}-{}'.format('a', 2) }}",
        "printed values": "{{ true }}{{ none }}{{ [1, 'a', none] }}{{ {'a': 1} }}{{ 1.0 }}{{ (1, 2) }}",
        "conditions": each("{{ 'U' if m.role == 'user' else 'A' if m.role == 'assistant' else 'S' }}{{ m.x or 'none' }}{{ not m.content }}"),
        "chained comparison": "{{ 1 < 2 < 3 }}",
        "range": "{% for i in range(messages | length - 1, -1, -1) %}{{ messages[i].role }}{% endfor %}",
        "call block": "{% macro wrap() %}<{{ caller() }}>{% endmacro %}{% call wrap() %}{{ messages[0].role }}{% endcall %}",
        "raw": "{% raw %}{{ messages }}{% endraw %}{# nothing #}{{ messages[0].role }}",
        "a final newline": "{{ messages[0].role }}\n",
        "two final newlines": "{{ messages[0].role }}\n\n",
        "qwen": "{%- if messages[0]['role'] == 'system' %}\n    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
        "{%- else %}\n    {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}\n{%- endif %}\n{%- for message in messages %}\n"
        "    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or (message.role == \"assistant\" and not "
        "message.tool_calls) %}\n        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
        "    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n",
        "llama 3": "{{- bos_token }}\n{%- if custom_tools is defined %}\n    {%- set tools = custom_tools %}\n{%- endif %}\n"
        "{%- if not date_string is defined %}\n    {%- if strftime_now is defined %}\n        {%- set date_string = strftime_now(\"%d %b %Y\") %}\n"
        "    {%- else %}\n        {%- set date_string = \"26 Jul 2024\" %}\n    {%- endif %}\n{%- endif %}\n{%- if not tools is defined %}\n"
        "    {%- set tools = none %}\n{%- endif %}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = "
        "messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = \"\" %}\n{%- endif %}\n"
        "{{- \"system\\n\\n\" }}\n{%- if tools is not none %}\n    {{- \"Environment: ipython\\n\" }}\n{%- endif %}\n"
        "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n{{- system_message }}\n{%- for message in messages %}\n"
        "    {{- message['role'] + '\\n\\n'+ message['content'] | trim + '<|eot|>' }}\n{%- endfor %}\n",
    }


# What this program refuses though transformers renders it: an error, and no other text.
REFUSED = set()


def render(template, messages):
    tokens = dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [copy.deepcopy(messages)], chat_template=template, add_generation_prompt=True, **tokens)
        return texts[0]
    except Exception:
        return None


# Tokenizers: those of the smallest model, with what other files say of them.
def tokenizers():
    folder = ROOT / "models" / "llama-tied"
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    first, second = tokenizer["added_tokens"][0], tokenizer["added_tokens"][1]

    def processor(before, after=()):
        named = lambda tokens: [{"SpecialToken": {"id": token["content"], "type_id": 0}} for token in tokens]
        single = named(before) + [{"Sequence": {"id": "A", "type_id": 0}}] + named(after)
        special = {t["content"]: {"id": t["content"], "ids": [t["id"]], "tokens": [t["content"]]} for t in [*before, *after]}
        return dict(type="TemplateProcessing", single=single, pair=single + [{"Sequence": {"id": "B", "type_id": 1}}], special_tokens=special)

    def case(tokenizer_more=None, config_more=None, **files):
        return {"tokenizer.json": {**tokenizer, **(tokenizer_more or {})}, "tokenizer_config.json": {**config, **(config_more or {})}, **files}

    bos = dict(post_processor=processor([first]))
    decoder = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in tokenizer["added_tokens"]}
    names = {"special_tokens_map.json": dict(bos_token=second["content"], eos_token=dict(content="<|endoftext|>"))}
    return {
        "plain": case(),
        "begins": case(bos),
        "begins with two": case(dict(post_processor=processor([first, second]))),
        "begins and ends": case(dict(post_processor=processor([first], [second]))),
        "begins, and the configuration says no": case(bos, dict(add_bos_token=False)),
        "the configuration says that it begins": case(None, dict(add_bos_token=True)),
        "other names in an old file": case(None, None, **names),
        "other names in an old file beside a newer one": case(None, dict(added_tokens_decoder=decoder), **names),
    }


def tokens_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, value in files.items():
            pathlib.Path(folder, name).write_text(json.dumps(value))
        pathlib.Path(folder, "config.json").write_text(json.dumps(base("llama")))
        loaded = AutoTokenizer.from_pretrained(folder)
        return dict(ids=loaded("hi 12")["input_ids"], bos=loaded.bos_token, eos=loaded.eos_token)


def main():
    cases = configurations()
    golden = dict(
        made_with=f"transformers {transformers.__version__}",
        conversations=CONVERSATIONS,
        configurations=[dict(name=name, config=config, read=read(config)) for name, config in cases.items()],
        templates=[
            dict(name=name, template=text, refused=name in REFUSED, texts={who: render(text, said) for who, said in CONVERSATIONS.items()})
            for name, text in templates().items()
        ],
        tokenizers=[dict(name=name, changed=changes(files), **tokens_of(files)) for name, files in tokenizers().items()],
    )
    (ROOT / "files.json").write_text(compact(golden))
    print(f"{len(cases)} configurations, {len(golden['templates'])} templates, {len(golden['tokenizers'])} tokenizers", file=sys.stderr)


def compact(golden):
    """JSON with a case a line."""
    line = lambda value: json.dumps(value, ensure_ascii=False, sort_keys=True)
    listed = lambda cases: "[\n" + ",\n".join("  " + line(case) for case in cases) + "\n ]"
    parts = [f" {line(key)}: {listed(value) if isinstance(value, list) else line(value)}" for key, value in golden.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def changes(files):
    """Of each file what differs from the smallest model's."""
    folder = ROOT / "models" / "llama-tied"
    own = {name: json.loads((folder / name).read_text()) if (folder / name).exists() else {} for name in files}
    return {name: {key: value for key, value in fields.items() if own[name].get(key) != value} for name, fields in files.items()}


main()
