//! Builds the models once for each checker, in a target folder of its own. In a shared folder,
//! every switch between a checker's cfg and another build would rebuild everything.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Message, PackageId};
use indicatif::ProgressBar;

use super::workspace::{Package, Workspace};
use crate::mode::Checker;

/// The binaries of models, built so far.
#[derive(Debug)]
pub(super) struct Built {
    /// Their workspace.
    pub(super) workspace: Workspace,
    /// The packages that have them.
    pub(super) packages: Vec<Arc<Package>>,
    target: &'static str,
    binaries: HashMap<Checker, HashMap<PackageId, PathBuf>>,
}

impl Built {
    /// Finds the packages with a test target of this name, and builds nothing yet.
    pub(super) fn none_of(workspace: Workspace, target: &'static str) -> Result<Self> {
        Ok(Built {
            packages: workspace.packages(target)?,
            workspace,
            target,
            binaries: HashMap::new(),
        })
    }

    /// Builds the binaries for these checkers, unless they are built.
    pub(super) fn add(&mut self, checkers: impl IntoIterator<Item = Checker>) -> Result<()> {
        // One after the other: cargo uses all cores, and two builds at once are slower.
        for checker in checkers {
            if checker == Checker::Spin || self.binaries.contains_key(&checker) {
                continue;
            }
            let name = checker.name();
            let progress = ProgressBar::new_spinner();
            progress.set_message(format!("building the {} under {name}", self.target));
            progress.enable_steady_tick(Duration::from_millis(100));
            let built = self.build(name);
            progress.finish_and_clear();
            let binaries =
                built.with_context(|| format!("the {} do not build under {name}", self.target))?;
            self.binaries.insert(checker, binaries);
        }
        Ok(())
    }

    /// Returns the binary that runs a package's rows under `checker`; none if it is not built.
    pub(super) fn binary(&self, checker: Checker, package: &Package) -> Option<&Path> {
        let of_package = self.binaries.get(&checker)?.get(&package.id)?;
        Some(of_package)
    }

    fn build(&self, checker: &str) -> Result<HashMap<PackageId, PathBuf>> {
        let folder = self.workspace.target.join("verify").join(checker);
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        let (profile, checks) = self.workspace.profile();
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&self.workspace.root)
            .args(["test", "--no-run", "--test", self.target])
            .args(["--profile", profile])
            .args(["--message-format", "json-render-diagnostics"])
            .arg("--target-dir")
            .arg(folder)
            .env("RUSTFLAGS", format!("{given} --cfg spanlock_{checker}"))
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .envs(checks.iter().copied());
        for package in &self.packages {
            cargo.args(["--package", &package.name]);
            for feature in &package.features {
                cargo.arg(format!("--features={}/{feature}", package.name));
            }
        }
        let output = cargo
            .output()
            .context("cannot run cargo: is Rust installed, and on the path?")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        // The binaries' paths depend on settings: at a guessed path, an older binary could run
        // unnoticed.
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
        let mut packages = self.packages.iter();
        if let Some(package) = packages.find(|it| !binaries.contains_key(&it.id)) {
            let (target, name) = (self.target, &package.name);
            bail!("cargo built no executable `{target}` of {name}");
        }
        Ok(binaries)
    }
}
