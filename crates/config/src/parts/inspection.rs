//! Checks of what inspection is configured with, and the library of nDPI that it names.

use std::sync::Arc;

use ndpi::Library;
use serde_saphyr::Spanned;
use worker::NdpiLimits;

use crate::error::Fault;
use crate::schema::{Config, ProtocolConfig};

/// Resolvers at most.
const MOST_RESOLVERS: usize = 64;

/// Finds resolvers that are too many or no network, and bounds of lifetimes that cross.
pub(crate) fn check(config: &Config) -> Result<(), Fault> {
    let inspection = &config.inspection;
    if let Some(resolver) = inspection.resolvers.get(MOST_RESOLVERS) {
        let message = format!("inspection.resolvers: more than {MOST_RESOLVERS}");
        return Err(Fault::new(resolver, message));
    }
    for resolver in &inspection.resolvers {
        if inspection.flows.value() == 0 {
            return Err(Fault::new(
                resolver,
                "inspection.resolvers: nothing is inspected with `flows: 0`",
            ));
        }
        if let Some(fault) = resolver.value.network_fault() {
            return Err(Fault::new(resolver, format!("inspection.resolvers: {fault}")));
        }
    }
    if let Some(lifetime) = &inspection.address_lifetime_s {
        let (least, most) = (lifetime.value.least.value(), lifetime.value.most.value());
        if least > most {
            let message = format!("inspection.address_lifetime_s: least, {least}, is above most, {most}");
            return Err(Fault::new(lifetime, message));
        }
    }
    Ok(())
}

/// Loads the library that the configuration names, if it names one.
pub(crate) fn load_ndpi(config: &Config) -> Result<Option<Arc<Library>>, Fault> {
    let inspection = &config.inspection;
    let Some(own) = &inspection.ndpi else {
        return Ok(None);
    };
    if inspection.flows.value() == 0 {
        return Err(Fault::new(
            own,
            "inspection.ndpi: nothing is inspected with `flows: 0`",
        ));
    }
    let library = Library::open(&own.value.library);
    let named = |error| {
        format!(
            "inspection.ndpi.library: `{}`: {error}",
            own.value.library.escape_debug()
        )
    };
    library
        .map(|library| Some(Arc::new(library)))
        .map_err(|error| Fault::new(own, named(error)))
}

/// Finds a protocol that nDPI does not know, or that is its business where there is none.
pub(crate) fn check_protocols(
    protocols: &[Spanned<ProtocolConfig>],
    library: Option<&Library>,
) -> Result<(), Fault> {
    protocols.iter().try_for_each(|one| {
        let found = one.value.protocol(library);
        found
            .map(|_| ())
            .map_err(|fault| Fault::new(one, format!("protocols: {fault}")))
    })
}

impl Config {
    /// The library of nDPI, and how much it looks at, as a worker takes them; nothing where it is not configured.
    #[must_use]
    pub fn ndpi_limits(&self) -> Option<NdpiLimits> {
        let own = self.inspection.ndpi.as_ref()?;
        Some(own.value.limits(self.ndpi.as_ref()?))
    }
}
