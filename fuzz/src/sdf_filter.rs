//! Any flow description: parsed or refused; what is parsed prints as what parses to the same.

use rules::sdf::FlowDescription;

/// See the module.
pub fn run(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if let Ok(description) = text.parse::<FlowDescription>() {
        assert_eq!(description.to_string().parse(), Ok(description));
    }
}
