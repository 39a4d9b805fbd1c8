//! The API: its listeners, its tokens, and where its answers come from.

use std::sync::Arc;

use tracing::{info, warn};

use config::Config;
use oam::LogControl;
use oam::alarms::SharedAlarms;
use oam::configuration::Configuration;
use oam::rest::{Access, Auditor, QueryClient, Reader, RestSocket, Service, WorkerGauges, default_path};
use oam::tokens::{self, TokenStore};
use oam::values::WorkerMemory;
use runtime::{PublishedStats, WorkerThread};
use trace::Explainer;

use super::host::HostView;
use super::records::RecordsView;
use super::session_store::StoreView;

/// Where the operator's API has its answers from, beside the workers.
pub(super) struct ApiSources<'a> {
    pub(super) client: QueryClient,
    pub(super) records: Option<RecordsView>,
    pub(super) store: Option<StoreView>,
    pub(super) hosts: HostView,
    pub(super) explainer: Explainer,
    pub(super) memory: Vec<WorkerMemory>,
    pub(super) alarms: SharedAlarms,
    pub(super) gauges: WorkerGauges,
    pub(super) log: &'a LogControl,
    pub(super) configuration: Option<Configuration>,
}

/// The open listeners, until they are dropped.
pub(super) struct Api {
    /// Who writes the audit log.
    pub(super) auditor: Option<Auditor>,
    _socket: Option<RestSocket>,
    #[cfg(feature = "tls")]
    _https: Option<oam::rest::HttpsListener>,
}

/// Opens the listeners. Without the Unix socket the daemon runs all the same.
///
/// # Errors
/// The listener for other hosts or the audit log is configured, and cannot be opened as it is.
pub(super) fn open(
    config: &Config,
    sources: ApiSources<'_>,
    threads: &[WorkerThread],
) -> Result<Api, String> {
    let tokens = open_tokens(config);
    let auditor = config.control.audit.as_ref().map(Auditor::open).transpose();
    let auditor = auditor.map_err(|error| format!("control.audit: {error}"))?;
    let service = service(sources, threads)
        .with_tokens(tokens.clone())
        .with_auditor(auditor.clone());
    #[cfg(not(feature = "tls"))]
    if config.control.https.is_some() {
        let words = "control.https: this program was built without TLS (feature `tls`)";
        return Err(words.to_owned());
    }
    Ok(Api {
        auditor,
        _socket: open_socket(config, service.clone()),
        #[cfg(feature = "tls")]
        _https: https::open(config, service, tokens)?,
    })
}

fn service(sources: ApiSources<'_>, threads: &[WorkerThread]) -> Service {
    let ApiSources {
        client,
        records,
        store,
        hosts,
        explainer,
        memory,
        alarms,
        gauges,
        log,
        configuration,
    } = sources;
    let published: Vec<_> = threads.iter().map(|thread| thread.published().clone()).collect();
    let workers = move || published.iter().map(PublishedStats::read).collect();
    let records = records.map(|view| -> Reader<_> { Arc::new(move || view.read()) });
    let store = store.map(|view| -> Reader<_> { Arc::new(move || view.read()) });
    let service = Service::new(client, Arc::new(workers))
        .with_records(records)
        .with_store(store)
        .with_hosts(Arc::new(move || hosts.read()))
        .with_memory(memory)
        .with_alarms(alarms)
        .with_gauges(gauges)
        .with_log(log.clone())
        .with_explainer(explainer);
    match configuration {
        Some(configuration) => service.with_configuration(configuration),
        None => service,
    }
}

/// The tokens. Where they cannot be read none is taken, and none is made: what cannot be read is not written over.
fn open_tokens(config: &Config) -> Option<Arc<TokenStore>> {
    let configured = config.control.token_file.as_ref().map(|path| path.value.clone());
    let path = configured.or_else(tokens::default_path)?;
    TokenStore::open(&path)
        .inspect_err(|error| warn!(path = %path.display(), why = %error, "API tokens not read"))
        .ok()
        .map(Arc::new)
}

fn open_socket(config: &Config, service: Service) -> Option<RestSocket> {
    let path = config.control.socket.clone().or_else(default_path)?;
    let group = config.control.group.as_deref();
    let access = group.map_or(Ok(Access::Owner), |group| {
        Access::group(group, config.control.group_role)
    });
    access
        .and_then(|access| RestSocket::open(&path, access, service))
        .inspect_err(|error| warn!(path = %path.display(), why = %error, "API socket not opened"))
        .inspect(|_| info!(path = %path.display(), "API socket open"))
        .ok()
}

/// The API for other hosts.
#[cfg(feature = "tls")]
mod https {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use config::Config;
    use oam::rest::{HttpsListener, HttpsSources, Service};
    use oam::tokens::TokenStore;
    use signal_hook::consts::SIGHUP;
    use tracing::info;

    /// Opens it, if there is to be one. SIGHUP has its certificate and key read again.
    pub(super) fn open(
        config: &Config,
        service: Service,
        tokens: Option<Arc<TokenStore>>,
    ) -> Result<Option<HttpsListener>, String> {
        let Some(https) = &config.control.https else {
            return Ok(None);
        };
        let reload = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&reload)).map_err(|error| error.to_string())?;
        let sources = HttpsSources {
            tokens,
            service,
            reload,
        };
        let listener =
            HttpsListener::open(https, sources).map_err(|error| format!("control.https: {error}"))?;
        let addresses: Vec<_> = listener.addresses().iter().map(ToString::to_string).collect();
        info!(addresses = addresses.join(","), "API open to other hosts");
        Ok(Some(listener))
    }
}
