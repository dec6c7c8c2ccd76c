//! The configuration: a TOML file becomes a [`Config`], or a list of everything wrong with it.
//!
//! Setting names are known in this module only. What comes out is typed and never checked again.

mod listen;
mod node;
mod problem;
mod reader;
mod service;
mod syntax;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lineway_actors::settings::Plan;

use problem::Problem;
pub use problem::Problems;
pub(crate) use problem::visible;
use reader::{Place, Reading, Table};
pub use service::LogFilter;

/// The configuration of a service that was given none: `config.toml` of the sources.
pub const BUILT_IN: &str = include_str!("../../config.toml");

/// The file of the current folder that is read when none is named.
const DEFAULT_FILE: &str = "config.toml";
/// No configuration is longer; something else was named by mistake.
const LONGEST_FILE: u64 = 8 << 20;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The service and its nodes.
    pub plan: Plan,
    /// `[log]`.
    pub log: LogSettings,
    /// `[admin]`.
    pub admin: AdminSettings,
    /// What is right, and yet worth a word to the operator: one line each, in the form of a problem.
    pub warnings: Vec<String>,
}

/// `[log]`: what is written to standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `level`, or `LINEWAY_LOG` where that is set. Default `info`.
    pub level: LogFilter,
    /// `format`. Default text.
    pub format: LogFormat,
}

/// `format` of `[log]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `text`: a line for a person.
    #[default]
    Text,
    /// `json`: one object a line.
    Json,
}

/// `[admin]`: the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// `listen`: IP address and port; with port 0 the system chooses. Default 127.0.0.1:9600.
    pub listen: SocketAddr,
}

/// What the command line and the environment say about reading a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// `--allow-port-zero`: a listener may have port 0, where the system chooses (T01).
    pub allow_port_zero: bool,
    /// `LINEWAY_LOG`: takes the place of `level`.
    pub log: Option<OsString>,
}

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// [`BUILT_IN`].
    BuiltIn,
}

impl Source {
    /// The named file; without one `config.toml` of the current folder where there is one, else
    /// the built-in configuration.
    pub fn find(path: Option<&Path>) -> Self {
        if let Some(path) = path {
            return Self::File(path.to_owned());
        }
        // A file that is there but can not be read is an error, not a reason to take another.
        match Path::new(DEFAULT_FILE).symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::BuiltIn,
            _ => Self::File(DEFAULT_FILE.into()),
        }
    }

    /// Reads and checks the configuration; a reload calls it again. Binds nothing.
    ///
    /// # Errors
    /// Every problem of the configuration.
    pub fn load(&self, options: &LoadOptions) -> Result<Loaded, Problems> {
        let name = self.to_string();
        let config = match self {
            Self::BuiltIn => parse(BUILT_IN, &name, options)?,
            Self::File(path) => {
                let folder = path.parent().unwrap_or(path);
                parse_in(folder, &read(path, &name)?, &name, options)?
            }
        };
        Ok(Loaded { config, source: self.clone() })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => f.write_str(&path.to_string_lossy()),
            Self::BuiltIn => f.write_str("built-in configuration"),
        }
    }
}

/// A configuration with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// Where it came from.
    pub source: Source,
}

/// Finds, reads and checks a configuration: [`Source::find`] and [`Source::load`].
///
/// # Errors
/// Every problem of the configuration.
pub fn load(path: Option<&Path>, options: &LoadOptions) -> Result<Loaded, Problems> {
    Source::find(path).load(options)
}

/// Reads and checks the text of a configuration; `name` stands for it in messages. Relative paths
/// in it begin in the current folder.
///
/// # Errors
/// Every problem of the configuration.
pub fn parse(text: &str, name: &str, options: &LoadOptions) -> Result<Config, Problems> {
    parse_in(Path::new(""), text, name, options)
}

/// The same with the folder in which relative paths begin.
fn parse_in(
    folder: &Path,
    text: &str,
    name: &str,
    options: &LoadOptions,
) -> Result<Config, Problems> {
    let (readable, errors) = syntax::readable(text);
    let parsed = syntax::parse(text, &readable, errors);
    let reading = Reading { folder, ..Reading::new(text, options) };
    let config = read_root(Table::new(&parsed.table, 0..0, Place::default(), &reading));
    let problems = parsed.with(text, reading.problems.into_inner());
    match config {
        Some(mut config) if problems.is_empty() => {
            let warnings = reading.warnings.into_inner();
            if !warnings.is_empty() {
                let warnings = Problems::new(name.to_owned(), text.to_owned(), warnings);
                config.warnings = warnings.lines().collect();
            }
            Ok(config)
        }
        _ => Err(Problems::new(name.to_owned(), text.to_owned(), problems)),
    }
}

/// The whole document. `None` only when a problem was noted.
fn read_root(mut root: Table<'_>) -> Option<Config> {
    let service = service::service(&mut root);
    let log = service::log(&mut root);
    let admin = service::admin(&mut root);
    let nodes = node::nodes(&mut root, &admin);
    root.finish("a configuration", |name| {
        service::table_of(name).map(|table| format!("it belongs to [{table}]"))
    });
    Some(Config { plan: Plan { service, nodes: nodes? }, log, admin, warnings: Vec::new() })
}

/// The text of a file.
fn read(path: &Path, name: &str) -> Result<String, Problems> {
    let unreadable = |what: String| {
        let problem = Problem { what, ..Problem::default() };
        Problems::new(name.to_owned(), String::new(), vec![problem])
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(format!("can not be read: {error}")))?;
    if bytes.len() as u64 > LONGEST_FILE {
        return Err(unreadable(format!("is longer than {LONGEST_FILE} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (text, problems) = syntax::not_utf8(error.as_bytes());
        Problems::new(name.to_owned(), text, problems)
    })
}

#[cfg(test)]
mod tests;
