//! Builds the binary `model` once for each checker, in a target folder of its own: the checkers' cfgs would
//! otherwise rebuild everything each time one builds without them.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;

use crate::plan::Checker;

/// The built models.
#[derive(Debug)]
pub struct Built {
    binaries: HashMap<Checker, PathBuf>,
    versions: HashMap<Checker, String>,
}

impl Built {
    /// The binary that runs rows under `checker`; none if it was not asked for.
    pub fn binary(&self, checker: Checker) -> Option<&Path> {
        self.binaries.get(&checker).map(PathBuf::as_path)
    }

    /// The version of `checker` that the models are built with.
    pub fn version(&self, checker: Checker) -> &str {
        self.versions
            .get(&checker)
            .map_or("unknown", String::as_str)
    }
}

/// The cargo that runs this, or the one on the path.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    cargo
}

/// Builds the models under each of `checkers`.
///
/// # Errors
/// Cargo is not there, or a build fails: with cargo's own words.
pub fn build(checkers: &[Checker]) -> Result<Built> {
    let metadata = metadata()?;
    let target = metadata["target_directory"].as_str();
    let target = Path::new(target.context("`cargo metadata` names no target directory")?);
    let names: Vec<_> = checkers.iter().map(|checker| checker.name()).collect();
    let progress = ProgressBar::new_spinner();
    progress.set_message(format!("building the models under {}", names.join(" and ")));
    progress.enable_steady_tick(Duration::from_millis(100));
    // One after the other: cargo uses all cores, and two at once are slower.
    let builds = checkers.iter().map(|&checker| {
        let binary = build_one(checker, &target.join("verify").join(checker.name()));
        let name = checker.name();
        binary.with_context(|| format!("the models do not build under {name}"))
    });
    let binaries: Result<Vec<_>> = builds.collect();
    progress.finish_and_clear();
    let mut built = Built {
        binaries: HashMap::new(),
        versions: HashMap::new(),
    };
    for (&checker, binary) in checkers.iter().zip(binaries?) {
        built.binaries.insert(checker, binary);
        if let Some(version) = version_of(&metadata, checker.name()) {
            built.versions.insert(checker, version);
        }
    }
    Ok(built)
}

fn build_one(checker: Checker, folder: &Path) -> Result<PathBuf> {
    let cfg = checker.cfg().context("it does not run our code")?;
    let given = env::var("RUSTFLAGS").unwrap_or_default();
    let output = cargo()
        .args(["build", "--profile", "checked", "--bin", "model"])
        .args([
            "--message-format",
            "json-render-diagnostics",
            "--target-dir",
        ])
        .arg(folder)
        .env("RUSTFLAGS", format!("{given} --cfg {cfg}"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .context("cannot run cargo: is Rust installed, and on the path?")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let path = executable(&String::from_utf8_lossy(&output.stdout));
    path.context("cargo built the models and does not say where they are")
}

/// Where cargo says that it put the models: asked, not guessed. It depends on settings (a target triple, for one), and an older
/// binary where we look would be run in its stead.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    messages.find_map(|message: serde_json::Value| {
        let is_model = message["target"]["name"] == "model";
        message["executable"]
            .as_str()
            .filter(|_| is_model)
            .map(PathBuf::from)
    })
}

fn metadata() -> Result<serde_json::Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1"])
        .output()
        .context("cannot run cargo: is Rust installed, and on the path?")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("`cargo metadata` fails: {}", words.trim_end());
    }
    serde_json::from_slice(&output.stdout)
        .context("`cargo metadata` printed something else than JSON")
}

fn version_of(metadata: &serde_json::Value, package: &str) -> Option<String> {
    let packages = metadata["packages"].as_array()?;
    let found = packages.iter().find(|found| found["name"] == package)?;
    Some(found["version"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_what_cargo_says_it_built() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"name":"loom"},"executable":null}
            words that are no message
            {"reason":"compiler-artifact","target":{"name":"verify"},"executable":"/t/triple/checked/verify"}
            {"reason":"compiler-artifact","target":{"name":"model"},"executable":"/t/triple/checked/model"}
            {"reason":"build-finished","success":true}"#;
        let path = executable(messages).expect("the model is named");
        assert_eq!(path, Path::new("/t/triple/checked/model"));
        assert_eq!(executable(r#"{"reason":"build-finished"}"#), None);
    }
}
