//! The programs that must be installed for a scenario.

use crate::error::Error;
use crate::host::firewall::Firewall;
use crate::load::Load;
use crate::machine::tool;
use crate::scenario::Scenario;
use crate::server::program;

/// A program that a scenario needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// The Debian package that contains the program.
    pub package: String,
    /// The program's name.
    pub program: String,
}

impl Requirement {
    /// Returns true if the program is installed.
    pub fn is_met(&self) -> bool {
        tool::find(&self.program).is_some()
    }

    fn new(&(program, package): &(&'static str, &'static str)) -> Self {
        Self {
            package: package.to_owned(),
            program: program.to_owned(),
        }
    }

    fn of_load(load: &Load) -> Option<Self> {
        match load {
            Load::Curl(_) => Some(Self::new(&("curl", "curl"))),
            Load::Command(load) => Some(Self {
                package: load.package.clone(),
                program: load.program.clone(),
            }),
            Load::Own(_) => None,
        }
    }
}

impl Scenario {
    /// Returns the programs that must be installed to bring the scenario up and to run its loads,
    /// by package. Recording the scenario also needs tcpdump and tshark.
    pub fn requirements(&self) -> Vec<Requirement> {
        let to_bring_up = to_bring_up(self).into_iter();
        let loads = self.services.iter().map(|service| &service.load);
        let mut all: Vec<_> = to_bring_up
            .map(|need| Requirement::new(&need))
            .chain(loads.filter_map(Requirement::of_load))
            .collect();
        all.sort();
        all.dedup();
        all
    }
}

/// Returns an error if a program is missing that is needed to bring a scenario up.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Error> {
    to_bring_up(scenario)
        .into_iter()
        .try_for_each(|(program, package)| tool::require(program, package))
}

/// Returns the programs needed to bring a scenario up, and the package of each.
fn to_bring_up(scenario: &Scenario) -> Vec<(&'static str, &'static str)> {
    let mut needs = vec![("ip", "iproute2")];
    for service in &scenario.services {
        needs.extend_from_slice(program::requirements(&service.server));
    }
    let hosts = [&scenario.client, &scenario.server];
    if hosts.iter().any(|host| host.shaper.is_some()) {
        needs.push(("tc", "iproute2"));
    }
    let services = scenario.services.iter();
    let mut filters = services.filter_map(|service| service.firewall.as_ref());
    if filters.any(Firewall::filters) || hosts.iter().any(|host| host.firewall.is_some()) {
        needs.push(("nft", "nftables"));
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_tells_the_packages_that_it_needs() {
        let scenario = Scenario::by_name("firewall-drop").expect("a shipped scenario");
        let needs = scenario.requirements();
        let packages: Vec<_> = needs.iter().map(|need| need.package.as_str()).collect();
        for package in ["curl", "iproute2", "nftables"] {
            assert!(packages.contains(&package), "{packages:?}");
        }
        assert!(packages.is_sorted());
    }
}
