//! The rules of all causes, as one accumulator. Some causes have no rule.

use super::{Case, Conclusion, Features, Gathered, Rule, settings, socket_options};
use crate::connection::Setup;
use crate::exchange::Exchange;
use crate::registry::causes;
use crate::stats::Merge;

/// Generates the struct that contains all rules. The rules' modules are declared in `cause.rs`, so
/// that rustfmt formats them.
macro_rules! rules {
    ($($variant:ident: $id:literal $(by $module:ident)? { $($column:tt)* })*) => {
        /// The accumulators of all rules for one service.
        #[derive(Clone, Debug, Default, Merge)]
        pub(crate) struct Rules {
            pub(crate) gathered: Gathered,
            $($(pub(crate) $module: super::$module::Rule,)?)*
        }

        impl Rules {
            /// Passes to each rule the exchanges that have one of its features.
            pub(crate) fn observe(&mut self, batch: &[&Exchange]) {
                let features: Vec<_> = batch.iter().map(|each| Features::of(each)).collect();
                self.show(batch, &features);
            }

            /// Passes to each rule the exchanges that have one of its features. `features` contains
            /// the features of each exchange.
            pub(super) fn show(&mut self, batch: &[&Exchange], features: &[Features]) {
                let batch = || batch.iter().zip(features);
                let any = features.iter().copied().fold(Features::ANY, Features::or);
                for (exchange, features) in batch() {
                    self.gathered.observe(exchange, *features);
                }
                $($(if any.has_any(<super::$module::Rule as Rule>::CONCERNS) {
                    for (exchange, features) in batch() {
                        if features.has_any(<super::$module::Rule as Rule>::CONCERNS) {
                            self.$module.observe(exchange);
                        }
                    }
                })?)*
            }

            pub(crate) fn observe_setups(&mut self, batch: &[&Setup]) {
                $($(batch.iter().for_each(|setup| self.$module.observe_setup(setup));)?)*
            }

            pub(crate) fn conclude(&self, case: &Case<'_>) -> Vec<Conclusion> {
                vec![$($(socket_options::explained(
                    settings::explained(
                        self.$module.conclude(case),
                        case,
                        || self.$module.measured(case),
                    ),
                    case,
                ),)?)*]
            }
        }
    };
}

causes!(rules);
