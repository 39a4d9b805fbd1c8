//! The configuration in effect, its versions, and how it changes.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, StringRejection};
use axum::extract::{Extension, Path, State};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use config::ApplicationFiles;

use crate::configuration::{
    Applied, Author, Commit, CommitOutcome, Configuration, Moment, Refusal, Rollback, Version,
};
use crate::rest::Caller;
use crate::rest::answer::{Answer, Asked, pairs};
use crate::rest::configuration::ConfigurationService;
use crate::rest::request;
use crate::rest::service::Service;
use crate::values::{
    CommitReport, CommitState, ConfigChange, ConfigDifferences, ConfigStatus, ConfigVersion,
    ConfigVersionList, ConfigVersionText, Problem, RolledBackVersion, UnconfirmedVersion,
};

/// An answer with the ETag of the configuration.
type Tagged<T> = Result<([(HeaderName, String); 1], Json<T>), Problem>;
/// A document that is sent.
type Sent = Result<String, StringRejection>;

/// The configuration in effect, with its text.
#[utoipa::path(
    get,
    path = "/v1/config",
    extensions(("x-role" = json!("operator"))),
    responses(
        (status = 200, body = ConfigStatus, headers(("ETag" = String, description = "For If-Match of a commit"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "It cannot be changed or read here"),
    )
)]
pub(super) async fn running(State(service): State<Service>) -> Tagged<ConfigStatus> {
    let status = of(&service)?.with(|state, at| status(state, at)).await;
    Ok(([(ETAG, status.etag.clone())], Json(status)))
}

/// The versions that are kept, the newest first.
#[utoipa::path(
    get,
    path = "/v1/config/versions",
    extensions(("x-role" = json!("operator"))),
    responses(
        (status = 200, body = ConfigVersionList),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "It cannot be changed or read here"),
    )
)]
pub(super) async fn versions(State(service): State<Service>) -> Answer<ConfigVersionList> {
    let list = of(&service)?
        .with(|state, _| ConfigVersionList {
            running: state.version().number,
            versions: state.versions().iter().rev().map(version).collect(),
        })
        .await;
    Ok(Json(list))
}

/// A version, with its text.
#[utoipa::path(
    get,
    path = "/v1/config/versions/{number}",
    extensions(("x-role" = json!("operator"))),
    params(("number" = u64, Path, description = "The number of the version")),
    responses(
        (status = 200, body = ConfigVersionText),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "This is no number"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such version"),
    )
)]
pub(super) async fn version_text(
    State(service): State<Service>,
    path: Result<Path<u64>, PathRejection>,
) -> Answer<ConfigVersionText> {
    let Path(number) = path.map_err(|error| Problem::bad("number", error.body_text()))?;
    let stored = of(&service)?.with(move |state, _| state.stored(number)).await?;
    Ok(Json(ConfigVersionText {
        version: version(&stored.version),
        text: stored.text,
        application_files: texts(&stored.files),
    }))
}

/// What a document would change, and what is worth a word of it; nothing is changed. The body is a whole configuration
/// file, or `version` names a version that takes its place. Application files are those beside the daemon's file, or of
/// the version.
#[utoipa::path(
    post,
    path = "/v1/config/diff",
    extensions(("x-role" = json!("operator"))),
    params(("version" = Option<u64>, Query, description = "The version that is compared, in the place of the body")),
    request_body(content = String, content_type = "application/yaml", description = "A whole configuration file, of 16 MiB at most"),
    responses(
        (status = 200, body = ConfigDifferences, headers(("ETag" = String, description = "For If-Match of a commit"))),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The document has a mistake"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such version"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The document is too long"),
    )
)]
pub(super) async fn differences(
    State(service): State<Service>,
    asked: Asked,
    sent: Sent,
) -> Tagged<ConfigDifferences> {
    let number = request::config_version(pairs(asked)?)?;
    let text = text(sent)?;
    let differences = of(&service)?.with(move |state, _| {
        let (text, files) = match number {
            Some(number) => {
                let stored = state.stored(number)?;
                (stored.text, Some(stored.files))
            }
            None => (text, None),
        };
        let (config, differences) = state.differences_to(&text, files)?;
        Ok::<_, Refusal>(ConfigDifferences {
            etag: state.etag(),
            live: differences.not_live().next().is_none(),
            changes: differences.changes.iter().map(ConfigChange::from).collect(),
            notes: config.notes(),
        })
    });
    let differences = differences.await?;
    Ok(([(ETAG, differences.etag.clone())], Json(differences)))
}

/// Takes a configuration into effect, with application files as they are beside the daemon's file now: all of it or
/// nothing, at burst boundaries, if all that changes is live.
#[utoipa::path(
    put,
    path = "/v1/config",
    extensions(("x-role" = json!("admin"))),
    params(
        ("If-Match" = String, Header, description = "The ETag of what it replaces; * for any"),
        ("confirm_s" = Option<u64>, Query, minimum = 1, maximum = 86_400, description = "Seconds after which it is rolled back unless it is confirmed"),
        ("comment" = Option<String>, Query, max_length = 200, description = "What is to be said of it in the list of versions"),
        ("at_restart" = Option<bool>, Query, description = "It is stored for the next start, and nothing changes now; false"),
    ),
    request_body(content = String, content_type = "application/yaml", description = "A whole configuration file, of 16 MiB at most"),
    responses(
        (status = 200, body = CommitReport, headers(("ETag" = String, description = "Of the configuration now"))),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The document has a mistake, or a parameter cannot be"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Not all of it is live, control refuses it, or another commit waits to be confirmed"),
        (status = 412, body = Problem, content_type = "application/problem+json", description = "The configuration or its file has changed since that ETag"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The document is too long"),
        (status = 428, body = Problem, content_type = "application/problem+json", description = "If-Match is missing"),
        (status = 500, body = Problem, content_type = "application/problem+json", description = "It cannot be stored"),
    )
)]
pub(super) async fn commit(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    asked: Asked,
    sent: Sent,
) -> Tagged<CommitReport> {
    let wanted = request::commit(pairs(asked)?)?;
    let commit = Commit {
        text: text(sent)?,
        files: None,
        author: author(&caller, wanted.comment),
        if_match: if_match(&headers)?,
        confirm_within: wanted.confirm_s.map(Duration::from_secs),
        at_restart: wanted.at_restart,
    };
    let own = of(&service)?;
    report(own, own.commit(commit).await?).await
}

/// Makes the version that waits to be confirmed that of the next start, too.
#[utoipa::path(
    post,
    path = "/v1/config/confirm",
    extensions(("x-role" = json!("admin"))),
    responses(
        (status = 200, body = CommitReport, headers(("ETag" = String, description = "Of the configuration now"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "It cannot be changed or read here"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "No version waits, or its time is over"),
        (status = 500, body = Problem, content_type = "application/problem+json", description = "It cannot be stored"),
    )
)]
pub(super) async fn confirm(State(service): State<Service>) -> Tagged<CommitReport> {
    let own = of(&service)?;
    report(own, own.confirm().await?).await
}

/// Returns to an earlier version: to the one before that which waits to be confirmed, else as a commit of its text.
#[utoipa::path(
    post,
    path = "/v1/config/rollback",
    extensions(("x-role" = json!("admin"))),
    params(
        ("If-Match" = Option<String>, Header, description = "The ETag of what it replaces; without, any"),
        ("to" = Option<u64>, Query, description = "The number of the version; the one before"),
        ("comment" = Option<String>, Query, max_length = 200, description = "What is to be said of it in the list of versions"),
        ("at_restart" = Option<bool>, Query, description = "It is stored for the next start, and nothing changes now; false"),
    ),
    responses(
        (status = 200, body = CommitReport, headers(("ETag" = String, description = "Of the configuration now"))),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "A parameter that cannot be"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such version"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Not all of it is live, control refuses it, or another version waits to be confirmed"),
        (status = 412, body = Problem, content_type = "application/problem+json", description = "The configuration or its file has changed since that ETag"),
        (status = 500, body = Problem, content_type = "application/problem+json", description = "It cannot be stored"),
    )
)]
pub(super) async fn rollback(
    State(service): State<Service>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    asked: Asked,
) -> Tagged<CommitReport> {
    let wanted = request::rollback(pairs(asked)?)?;
    let rollback = Rollback {
        to: wanted.to,
        author: author(&caller, wanted.comment),
        if_match: if_match(&headers)?,
        at_restart: wanted.at_restart,
    };
    let own = of(&service)?;
    report(own, own.roll_back(rollback).await?).await
}

/// Files by their names.
fn texts(files: &ApplicationFiles) -> BTreeMap<String, String> {
    let files = files.iter();
    files
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect()
}

fn of(service: &Service) -> Result<&ConfigurationService, Problem> {
    let none = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "the configuration cannot be changed or read here",
        )
    };
    service.configuration.as_ref().ok_or_else(none)
}

fn text(sent: Sent) -> Result<String, Problem> {
    sent.map_err(|error| Problem::new(error.status(), error.body_text()))
}

fn if_match(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let tags = headers
        .get(IF_MATCH)
        .map(|tags| tags.to_str().map(ToOwned::to_owned));
    tags.transpose()
        .map_err(|_| Problem::bad("If-Match", "must be an ETag"))
}

fn author(caller: &Caller, comment: Option<String>) -> Author {
    Author {
        by: caller.name.to_string(),
        comment: comment.unwrap_or_default(),
    }
}

/// The last time that has a date of four digits, which is the last that can be written, in milliseconds.
const LAST_TIME_MS: u64 = 253_402_300_799_999;

fn version(version: &Version) -> ConfigVersion {
    let at = std::time::UNIX_EPOCH + Duration::from_millis(version.at_ms.min(LAST_TIME_MS));
    ConfigVersion {
        number: version.number,
        at: humantime::format_rfc3339_seconds(at).to_string(),
        by: version.by.clone(),
        comment: version.comment.clone(),
    }
}

fn status(state: &Configuration, at: Moment) -> ConfigStatus {
    let unconfirmed = state.unconfirmed(at.now);
    ConfigStatus {
        etag: state.etag(),
        running: version(state.version()),
        file: state.file().display().to_string(),
        file_edited: state.is_file_edited(),
        application_files_edited: state.are_files_edited(),
        unconfirmed: unconfirmed.map(|waiting| UnconfirmedVersion {
            number: waiting.number,
            seconds_left: waiting.left.map(|left| left.as_secs()),
        }),
        next_start: state.next_start().map(version),
        rolled_back: state.rolled_back().map(|lost| RolledBackVersion {
            version: version(&lost.version),
            why: lost.why.to_owned(),
        }),
        text: state.text().to_string(),
    }
}

async fn report(own: &ConfigurationService, outcome: CommitOutcome) -> Tagged<CommitReport> {
    let (etag, application_files_edited) = own
        .with(|state, _| (state.etag(), state.are_files_edited()))
        .await;
    let (state, seconds) = match outcome.applied {
        Applied::Confirmed => (CommitState::Confirmed, None),
        Applied::Until(time) => (CommitState::Unconfirmed, Some(time.as_secs())),
        Applied::AtRestart => (CommitState::AtRestart, None),
        Applied::RolledBack => (CommitState::RolledBack, None),
    };
    let report = CommitReport {
        etag: etag.clone(),
        version: version(&outcome.version),
        state,
        seconds,
        application_files_edited,
        changes: outcome.changes.iter().map(ConfigChange::from).collect(),
    };
    Ok(([(ETAG, etag)], Json(report)))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::Unconditional => StatusCode::PRECONDITION_REQUIRED,
            Refusal::Changed => StatusCode::PRECONDITION_FAILED,
            Refusal::Mistake(_) => StatusCode::BAD_REQUEST,
            Refusal::NoVersion(_) => StatusCode::NOT_FOUND,
            Refusal::Store(_) | Refusal::Unstored(..) => StatusCode::INTERNAL_SERVER_ERROR,
            Refusal::Unconfirmed(_)
            | Refusal::Settled
            | Refusal::TooLate(_)
            | Refusal::Same
            | Refusal::NotLive(_)
            | Refusal::NotApplied(_) => StatusCode::CONFLICT,
        };
        Self::new(status, refusal.to_string())
    }
}
