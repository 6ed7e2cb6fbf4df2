//! The packages of a workspace that have models, from `cargo metadata`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use cargo_metadata::{Metadata, MetadataCommand, PackageId};

use super::args::Scope;

/// The test target that holds a package's models.
pub(super) const MODELS: &str = "models";

/// The test target that holds known bugs of other projects.
pub(super) const KNOWN_BUGS: &str = "known-bugs";

/// The profile in which models are built, where the workspace defines it.
const PROFILE: &str = "checked";

/// The workspace that the command works on.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
    metadata: Metadata,
    chosen: Vec<String>,
}

/// A package that has the test target asked for.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) id: PackageId,
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Its sources, relative to the workspace's root, as the compiler names them: `lock/src/`.
    pub(super) sources: String,
    /// Features that the test target requires.
    pub(super) features: Vec<String>,
}

impl Workspace {
    /// Asks cargo for the workspace.
    pub(super) fn find(scope: &Scope) -> Result<Self> {
        let mut command = MetadataCommand::new();
        if let Some(path) = &scope.manifest_path {
            command.manifest_path(path);
        }
        let metadata = command.exec().map_err(|error| match error {
            cargo_metadata::Error::CargoMetadata { stderr } => {
                anyhow!("`cargo metadata` fails: {}", stderr.trim_end())
            }
            error => anyhow!("`cargo metadata`: {error}"),
        })?;
        let members = metadata.workspace_packages();
        let names: Vec<&str> = members.iter().map(|it| it.name.as_str()).collect();
        if let Some(name) = (scope.package.iter()).find(|it| !names.contains(&it.as_str())) {
            bail!(
                "--package {name}: the workspace has no such package\n  it has {}",
                names.join(", ")
            );
        }
        Ok(Workspace {
            root: metadata.workspace_root.clone().into(),
            target: metadata.target_directory.clone().into(),
            chosen: scope.package.clone(),
            metadata,
        })
    }

    /// Returns the chosen packages with a test target of this name.
    pub(super) fn packages(&self, target: &str) -> Result<Vec<Arc<Package>>> {
        let mut packages = Vec::new();
        for package in self.metadata.workspace_packages() {
            let is_chosen = self.chosen.is_empty() || self.chosen.contains(&package.name);
            let mut targets = package.targets.iter().filter(|_| is_chosen);
            let Some(models) = targets.find(|it| it.is_test() && it.name == target) else {
                continue;
            };
            let manifest = package.manifest_path.as_std_path();
            let folder = manifest.parent().unwrap_or(&self.root).to_owned();
            let place = folder.strip_prefix(&self.root).unwrap_or(&folder);
            packages.push(Arc::new(Package {
                id: package.id.clone(),
                name: package.name.to_string(),
                sources: format!("{}/", place.join("src").display()),
                features: models.required_features.clone(),
                folder,
            }));
        }
        if packages.is_empty() {
            let whose = match &self.chosen[..] {
                [] => self.root.display().to_string(),
                chosen => chosen.join(", "),
            };
            let main = target.replace("models", "main").replace('-', "_");
            bail!(
                "no package of {whose} has a test target `{target}`\n  add one to a package's \
                 Cargo.toml, and write {target}/main.rs:\n\n    [[test]]\n    name = \
                 \"{target}\"\n    path = \"{target}/main.rs\"\n    harness = false\n\n    // \
                 {target}/main.rs\n    fn main() -> std::process::ExitCode {{\n        \
                 spanlock_verify::{main}([/* ... */])\n    }}"
            );
        }
        Ok(packages)
    }

    /// Returns the version of a dependency; the highest, if there are several.
    pub(super) fn version_of(&self, package: &str) -> Option<String> {
        let packages = self.metadata.packages.iter();
        let found = packages.filter(|it| it.name == package);
        found.map(|it| &it.version).max().map(ToString::to_string)
    }

    /// Returns the profile for models, and what the environment has to add to it.
    pub(super) fn profile(&self) -> (&'static str, &'static [(&'static str, &'static str)]) {
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
}
