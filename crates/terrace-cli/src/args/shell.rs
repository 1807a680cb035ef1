//! `terrace shell`, and the lines that are typed in it.

use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand};

use crate::args::command::DataCommand;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each line is a data command without `terrace` before it: get, put, scan, stats and so on; `help` lists
them. Words with blanks stand in quotes. `use NAME` goes on in another keyspace, `exit` ends. The
tabulator completes commands, options, keyspaces and keys. Ctrl-C gives up a line, or ends a command
that runs; Ctrl-D ends the shell. A directory stays open, and closed to others, for as long.

Lines that begin with # are nothing. If the lines come out of a pipe, the first that fails ends it,
and its exit code is that of the shell.

The lines are kept in ~/.terrace_history, or in the file that the environment variable TERRACE_HISTORY
names; if that is empty, nowhere.")]
pub(crate) struct ShellArgs {
    /// Go on after a line that fails, if the lines come out of a pipe
    #[arg(long)]
    pub(crate) keep_going: bool,
}

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(multicall = true, max_term_width = 100)]
pub(crate) struct ShellLine {
    #[command(subcommand)]
    pub(crate) command: ShellCommand,
}

/// What a line does.
#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    #[command(flatten)]
    Data(DataCommand),
    /// Go on in another keyspace
    Use(UseArgs),
    /// End the shell
    #[command(alias = "quit")]
    Exit,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct UseArgs {
    /// Make it if there is none
    #[arg(long)]
    pub(crate) make: bool,
    /// The name of the keyspace
    #[arg(value_name = "NAME", default_value = "default")]
    pub(crate) name: String,
}

/// The names of commands, or the long options of one of them.
pub(crate) fn shell_words(command: Option<&str>) -> Vec<String> {
    let line = ShellLine::command();
    let Some(command) = command else {
        let names = line.get_subcommands().map(|command| command.get_name().to_owned());
        return names.chain(["help".to_owned()]).collect();
    };
    let Some(found) = line.find_subcommand(command) else { return Vec::new() };
    let visible = found.get_arguments().filter(|argument| !argument.is_hide_set());
    visible.filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect()
}
