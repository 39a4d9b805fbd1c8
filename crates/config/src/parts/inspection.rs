//! Checks of what inspection is configured with.

use crate::error::Fault;
use crate::schema::Config;

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
