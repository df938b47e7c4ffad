//! `sipp-ringer`: `ringer sip` under a name that can take the place of `sipp`.

#[global_allocator]
static ALLOCATOR: allocator::Mimalloc = allocator::Mimalloc;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    lab::cli::sipp(&arguments).into()
}
