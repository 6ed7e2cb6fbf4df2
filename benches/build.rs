//! Records the compiler version in the program, because figures depend on it.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version
        .ok()
        .and_then(|it| String::from_utf8(it.stdout).ok());
    let version = version.unwrap_or_else(|| "an unknown compiler".to_owned());
    println!("cargo:rustc-env=SPANLOCK_RUSTC={}", version.trim());
}
