//! The workspace, its packages with models, and one build of the models for each checker. Each
//! build has its own target folder: in a shared one, cargo would rebuild everything whenever the
//! checker's `--cfg` is added or removed.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, Metadata, MetadataCommand, PackageId};
use indicatif::ProgressBar;

use super::args::{Common, Scope};
use super::partition::Partition;
use crate::mode::Checker;
use crate::rows::row::Circumstances;

/// The test target that holds a package's models.
pub(super) const MODELS: &str = "models";

/// The test target that holds known bugs of other projects.
pub(super) const KNOWN_BUGS: &str = "known-bugs";

/// This package. Every package with models depends on it.
const HARNESS: &str = env!("CARGO_PKG_NAME");

/// The profile for models, if the workspace defines it.
const PROFILE: &str = "checked";

/// A package that has the requested test target.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) id: PackageId,
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Its source folder, relative to the workspace's root, as the compiler prints it: `lock/src/`.
    pub(super) sources: String,
}

/// A workspace, and the model binaries built so far.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) root: PathBuf,
    /// Cargo's target folder.
    pub(super) folder: PathBuf,
    /// The packages that have models.
    pub(super) packages: Vec<Arc<Package>>,
    metadata: Metadata,
    target: &'static str,
    /// Cargo's arguments that select packages and features: those of models and of known bugs,
    /// whatever the target. Cargo unites the features of the selected packages, so with others, it
    /// would build the dependencies again.
    selection: Vec<String>,
    binaries: HashMap<Checker, HashMap<PackageId, PathBuf>>,
}

impl Built {
    /// Finds the selected packages that have this test target, and builds nothing yet.
    pub(super) fn none_of(scope: &Scope, target: &'static str) -> Result<Self> {
        let mut command = MetadataCommand::new();
        if let Some(path) = &scope.manifest_path {
            command.manifest_path(path);
        }
        let metadata = command.exec()?;
        let root: PathBuf = metadata.workspace_root.clone().into();
        let (members, chosen) = (metadata.workspace_packages(), &scope.package);
        let names: Vec<&str> = members.iter().map(|it| it.name.as_str()).collect();
        for name in chosen {
            ensure!(
                names.contains(&name.as_str()),
                "--package {name}: the workspace has no such package\n  it has {}",
                names.join(", ")
            );
        }
        let mut packages = Vec::new();
        let mut without = Vec::new();
        let mut selection = Vec::new();
        for package in &members {
            if !chosen.is_empty() && !chosen.contains(&package.name) {
                continue;
            }
            let targets = package.targets.iter().filter(|it| it.is_test());
            let mut targets = targets.filter(|it| [MODELS, KNOWN_BUGS].contains(&&*it.name));
            for it in targets.clone() {
                let features = it.required_features.iter();
                let features = features.map(|it| format!("--features={}/{it}", package.name));
                selection.push(format!("--package={}", package.name));
                selection.extend(features);
            }
            if !targets.any(|it| it.name == target) {
                let is_user = package.dependencies.iter().any(|it| it.name == HARNESS);
                without.extend(is_user.then_some(package.name.as_str()));
                continue;
            }
            let manifest = package.manifest_path.as_std_path();
            let folder = manifest.parent().unwrap_or(&root).to_owned();
            let place = folder.strip_prefix(&root).unwrap_or(&folder);
            packages.push(Arc::new(Package {
                id: package.id.clone(),
                name: package.name.to_string(),
                sources: format!("{}/", place.join("src").display()),
                folder,
            }));
        }
        if packages.is_empty() {
            let whose = match &chosen[..] {
                [] => root.display().to_string(),
                chosen => chosen.join(", "),
            };
            bail!(advice(target, &whose, &without));
        }
        Ok(Built {
            root,
            folder: metadata.target_directory.clone().into(),
            packages,
            metadata,
            target,
            selection,
            binaries: HashMap::new(),
        })
    }

    /// Returns the version of a dependency, or the highest version if there are several.
    pub(super) fn version_of(&self, package: &str) -> Option<String> {
        let packages = self.metadata.packages.iter();
        let found = packages.filter(|it| it.name == package);
        found.map(|it| &it.version).max().map(ToString::to_string)
    }

    /// Returns the circumstances of an unpartitioned run that starts now. The caller sets `rows`.
    pub(super) fn circumstances(&self, common: &Common, options: &[(&str, bool)]) -> Circumstances {
        let filters = common.filter.iter().map(|text| format!("--filter {text}"));
        let packages = common.scope.package.iter();
        let packages = packages.map(|name| format!("--package {name}"));
        let mut chosen: Vec<String> = filters.chain(packages).collect();
        chosen.sort();
        let options = options.iter().filter(|(_, is_given)| *is_given);
        chosen.splice(..0, options.map(|(name, _)| (*name).to_owned()));
        let rustc = first_line(Command::new("rustc").arg("--version"));
        Circumstances {
            selection: chosen.join(" "),
            rows: 0,
            partition: Partition::WHOLE.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: self.commit(),
            rustc: rustc.unwrap_or_else(|| "unknown".to_owned()),
            machine: machine(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        }
    }

    /// Returns the commit of the workspace, with `-dirty` appended if files have changed since, or
    /// `unknown` without git.
    pub(super) fn commit(&self) -> String {
        let mut git = Command::new("git");
        git.current_dir(&self.root)
            .args(["describe", "--always", "--dirty", "--abbrev=12"])
            .arg("--exclude=*");
        first_line(&mut git).unwrap_or_else(|| "unknown".to_owned())
    }

    /// Returns the profile for models, and the environment variables that turn on debug checks.
    fn profile(&self) -> (&'static str, &'static [(&'static str, &'static str)]) {
        let manifest = fs::read_to_string(self.root.join("Cargo.toml")).unwrap_or_default();
        let head = format!("[profile.{PROFILE}]");
        if manifest.lines().any(|line| line.trim() == head) {
            return (PROFILE, &[]);
        }
        let checks = &[
            ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"),
            ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
        ];
        ("release", checks)
    }

    /// Builds the binaries for these checkers that are not built yet.
    pub(super) fn add(&mut self, checkers: impl IntoIterator<Item = Checker>) -> Result<()> {
        // One build at a time: cargo uses all cores, and two builds at once would be slower.
        for checker in checkers {
            if checker == Checker::Spin || self.binaries.contains_key(&checker) {
                continue;
            }
            let name = checker.name();
            let progress = ProgressBar::new_spinner();
            let what = format!("building the {} under {name}", self.target);
            if progress.is_hidden() {
                // There is no terminal to draw in, and the build may take minutes.
                eprintln!("{what}");
            }
            progress.set_message(what);
            progress.enable_steady_tick(Duration::from_millis(100));
            let built = self.build(name);
            progress.finish_and_clear();
            let binaries =
                built.with_context(|| format!("the {} do not build under {name}", self.target))?;
            self.binaries.insert(checker, binaries);
        }
        Ok(())
    }

    /// Returns the binary that runs a package's rows under `checker`.
    pub(super) fn binary(&self, checker: Checker, package: &Package) -> Result<&Path> {
        let binaries = self.binaries.get(&checker);
        let binary = binaries
            .and_then(|all| all.get(&package.id))
            .map(PathBuf::as_path);
        binary.with_context(|| format!("{} is not built under {}", package.name, checker.name()))
    }

    fn build(&self, checker: &str) -> Result<HashMap<PackageId, PathBuf>> {
        let folder = self.folder.join("verify").join(checker);
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        for checker in Checker::OF_CODE {
            let cfg = format!("spanlock_{}", checker.name());
            let why = "which the command adds itself: unset it";
            ensure!(!given.contains(&cfg), "RUSTFLAGS has `--cfg {cfg}`, {why}");
        }
        let (profile, checks) = self.profile();
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&self.root)
            .args(["test", "--no-run", "--test", self.target])
            .args(["--profile", profile])
            .args(["--message-format", "json-render-diagnostics"])
            .arg("--target-dir")
            .arg(folder)
            .env("RUSTFLAGS", format!("{given} --cfg spanlock_{checker}"))
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .envs(checks.iter().copied())
            .args(&self.selection);
        let output = cargo
            .output()
            .context("cannot run cargo: is Rust installed, and on the path?")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", said.trim_end());
        // Cargo's messages name the binaries. A guessed path could hold an outdated binary.
        let mut binaries = HashMap::new();
        for message in Message::parse_stream(&output.stdout[..]) {
            if let Message::CompilerArtifact(artifact) = message?
                && artifact.target.name == self.target
                && artifact.target.is_test()
                && let Some(executable) = artifact.executable
            {
                binaries.insert(artifact.package_id, executable.into());
            }
        }
        Ok(binaries)
    }
}

/// Returns advice to add the missing test target. `users` are packages that use the harness.
fn advice(target: &str, whose: &str, users: &[&str]) -> String {
    let users = match users {
        [] => String::new(),
        users => format!("; {} use {HARNESS} and have none", users.join(", ")),
    };
    let main = target.replace("models", "main").replace('-', "_");
    format!(
        "no package of {whose} has a test target `{target}`{users}\n  add one to a package's \
         Cargo.toml, and write {target}/main.rs:\n\n    [[test]]\n    name = \"{target}\"\n    \
         path = \"{target}/main.rs\"\n    harness = false\n\n    // {target}/main.rs\n    fn \
         main() -> std::process::ExitCode {{\n        spanlock_verify::{main}([/* ... */])\n    }}"
    )
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?;
    output.status.success().then(|| line.to_owned())
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let processor = model.and_then(|line| line.split_once(':'));
    let processor = processor.map_or(env::consts::ARCH, |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!("{processor}, {cores} cores, {}", env::consts::OS)
}
