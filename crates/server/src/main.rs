//! The binary `belfry`.

fn main() -> std::process::ExitCode {
    server::cli::main()
}
