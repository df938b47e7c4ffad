//! Every `belfry` command that a page shows is one that the command line takes.

use clap::error::ErrorKind;

#[test]
fn every_command_of_a_page_is_taken_by_the_command_line() {
    let (mut mistakes, commands) = (Vec::new(), page_commands::commands("belfry"));
    for command in &commands {
        let Err(error) = cli::command().try_get_matches_from(&command.words) else { continue };
        let is_mistake = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => false,
            kind if command.is_in_text => {
                matches!(kind, ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)
            }
            _ => true,
        };
        if is_mistake {
            mistakes.push(format!("{}\n    {error}", command.place));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(commands.len() > 200, "only {} commands were found", commands.len());
}
