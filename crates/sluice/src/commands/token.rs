//! `sluice token`: who may use the API of a running daemon over TLS.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;

use super::status::{CONFIGURATION_ERROR, RUN_ERROR};
use config::{CallerRole, Config};
use oam::rest::{ApiRequest, ClientError, ResponseLimits, ask, default_path, fetch, get};
use oam::values::{NewToken, TokenList};

/// `sluice token`.
#[derive(Args, Clone, Debug)]
pub struct TokenArguments {
    #[command(subcommand)]
    what: What,
    /// The daemon's socket; else that of the configuration, else the default one.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
    /// The daemon's configuration.
    #[arg(short, long, global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// Make a token, and print it: it is shown this once.
    Create {
        /// Its name: letters, digits, `.`, `_`, `-`, `@`.
        #[arg(long, value_parser = name)]
        name: String,
        /// What its holder may do: viewer, operator or admin.
        #[arg(long)]
        role: CallerRole,
        /// How long it is valid: 12h, 90d, 1year.
        #[arg(long, default_value = "90d", value_parser = humantime::parse_duration)]
        expires: Duration,
    },
    /// Print the tokens there are and were, without what proves them.
    List {
        /// As JSON, as the API has it.
        #[arg(long)]
        json: bool,
    },
    /// End a token's validity, and the connections that it has opened.
    Revoke {
        /// Its name.
        #[arg(value_parser = name)]
        name: String,
    },
}

/// A name that needs no escape in a path or a query. The daemon says what else it must be.
fn name(text: &str) -> Result<String, &'static str> {
    let is_good = |octet: u8| octet.is_ascii_alphanumeric() || b"._-@".contains(&octet);
    match !text.is_empty() && text.bytes().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err("must be letters, digits, `.`, `_`, `-` or `@`"),
    }
}

/// Asks the daemon. Exit status 1 when none answers or it refuses, 2 for a configuration with a mistake.
#[must_use]
pub fn token(arguments: &TokenArguments) -> ExitCode {
    let configured = match arguments.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config.and_then(|config| config.control.socket),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(CONFIGURATION_ERROR);
        }
    };
    let Some(socket) = arguments.socket.clone().or(configured).or_else(default_path) else {
        eprintln!("token: there is no default socket for this user: name one with --socket");
        return ExitCode::from(RUN_ERROR);
    };
    match answer(&socket, &arguments.what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("token: {error}");
            ExitCode::from(RUN_ERROR)
        }
    }
}

fn answer(socket: &Path, what: &What) -> Result<(), ClientError> {
    match what {
        What::Create { name, role, expires } => {
            let expires = expires.as_secs();
            let target = format!("/v1/tokens?name={name}&role={role}&expires_s={expires}");
            let made: NewToken = ask(socket, Method::POST, &target)?;
            // What proves it alone goes to standard output, as into a file.
            eprintln!("{} {} until {}", made.role, made.name, made.expires);
            println!("{}", made.token);
        }
        What::List { json } => {
            let list: TokenList = get(socket, "/v1/tokens")?;
            match json {
                // Plain values always have a JSON form.
                true => println!("{}", serde_json::to_string_pretty(&list).unwrap_or_default()),
                false => print!("{}", list.text()),
            }
        }
        What::Revoke { name } => {
            let request = ApiRequest {
                method: Method::DELETE,
                target: &format!("/v1/tokens/{name}"),
            };
            let limits = ResponseLimits {
                time: Duration::from_secs(5),
                octets: 1 << 16,
            };
            fetch(socket, request, limits)?;
        }
    }
    Ok(())
}
