#![doc = include_str!("../README.md")]

#[cfg(spanlock_simulated)]
mod cells;
#[cfg(spanlock_simulated)]
mod file;
#[cfg(spanlock_simulated)]
mod locks;
#[cfg(spanlock_simulated)]
mod model;
#[cfg(spanlock_simulated)]
mod region;
#[cfg(spanlock_simulated)]
mod row;

#[global_allocator]
static ARENA: spanlock_cores::Arena = spanlock_cores::Arena;

#[cfg(spanlock_simulated)]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["list", ref cores @ ..] => cells::list(cores),
        [case, lock, cores] => cells::run(case, lock, cores),
        ["model", case, lock, cores, ref point @ ..] => model::run(case, lock, cores, point),
        _ => Err("expected `list`, or a case, a lock and a number of cores".to_owned()),
    };
    match done {
        Ok(text) => {
            println!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(spanlock_simulated))]
fn main() -> std::process::ExitCode {
    eprintln!("error: this program runs on simulated cores only: use `cargo compare lines`");
    std::process::ExitCode::FAILURE
}
