//! The steps that bring a lab up.

mod programs;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;

use super::crew::{Crew, failed, last_words};
use super::run::{Member, Run};
use crate::error::Error;
use crate::host::address::Addresses;
use crate::host::{files, firewall, link};
use crate::machine::helper::Helper;
use crate::machine::namespace::Namespace;
use crate::machine::tool;
use crate::path::emulator::EmulatorPlan;
use crate::scenario::service::{NGINX, NGINX_WORKER, PATH};
use crate::scenario::{Scenario, Service};
use crate::server::dns::DnsPlan;
use crate::server::mail::MailPlan;
use crate::server::own::ServePlan;
use crate::server::{Server, listening, nginx, stamp};
use crate::side::Side;

pub(crate) use programs::server_log;

/// Maximum time until a started process is ready.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// Maximum time from the start of nginx's master to the start of its workers.
const WORKERS_LIMIT: Duration = Duration::from_secs(1);

/// Returns the file into which the emulator of a run writes its counters.
pub(crate) fn counters_file(run: &Run) -> std::path::PathBuf {
    run.folder().join("path.counters.json")
}

impl Crew {
    /// Brings up the hosts, path, packet filter and servers of the run's scenario. After an error,
    /// `dismiss` and the run's `clean_up` remove the parts that were already created.
    pub(crate) fn bring_up(&mut self, run: &mut Run, helper: &Helper) -> Result<(), Error> {
        let (folder, scenario) = (run.folder(), &run.scenario);
        let path = &scenario.path;
        files::lay(&folder, Side::Client, &scenario.client.files, path)?;
        files::lay(&folder, Side::Server, &scenario.server.files, path)?;
        let (client, server) = (run.namespace(Side::Client), run.namespace(Side::Server));
        self.make_hosts(run, &client, &server, helper)?;
        load_firewalls(&client, &server, &run.scenario)?;
        self.start_nginx(run, &server)?;
        for service in run.scenario.services.clone() {
            self.start_program(run, &server, &service)?;
            self.start_own_server(run, &server, &service, helper)?;
        }
        self.wait_until_listening(run, &server)?;
        self.note_workers(run)?;
        for service in &run.scenario.services {
            service.server.prepare(&run.folder(), service.port())?;
        }
        self.start_watches(run, helper)
    }

    /// Creates the two hosts and the link between them, or, on loopback, the one host that is both.
    fn make_hosts(
        &mut self,
        run: &mut Run,
        client: &Namespace,
        server: &Namespace,
        helper: &Helper,
    ) -> Result<(), Error> {
        client.create()?;
        let scenario = &run.scenario;
        if scenario.path.loopback {
            server.share(client)?;
            let (asks, answers) = (&scenario.client, &scenario.server);
            return link::configure_loopback(client, asks, answers, &scenario.path);
        }
        server.create()?;
        if scenario.path.is_emulated() {
            self.start_path(run, helper)?;
        } else {
            link::join(client, server)?;
        }
        let scenario = &run.scenario;
        link::configure(client, Side::Client, &scenario.client, &scenario.path)?;
        link::configure(server, Side::Server, &scenario.server, &scenario.path)
    }

    fn start_path(&mut self, run: &mut Run, helper: &Helper) -> Result<(), Error> {
        let counters = counters_file(run);
        let plan = EmulatorPlan {
            path: run.scenario.path.clone(),
            client_namespace: run.client_namespace(),
            server_namespace: run.server_namespace(),
            counters: counters.clone(),
        };
        let mut command = helper.command();
        command.arg("path").arg(write_plan(run, PATH, &plan)?);
        self.start(run, PATH, command, Signal::KILL)?;
        // The counters appear once both devices are there.
        let begun = Instant::now();
        while !counters.exists() {
            self.check_alive(run, PATH)?;
            if begun.elapsed() > READY_LIMIT {
                return Err(failed(
                    PATH,
                    &format!("not ready after {} s", READY_LIMIT.as_secs()),
                ));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn start_nginx(&mut self, run: &mut Run, server: &Namespace) -> Result<(), Error> {
        let blocks = programs::nginx_blocks(&run.scenario.services);
        let Some(arguments) = nginx::lay(&run.folder(), &blocks, &run.scenario.path)? else {
            return Ok(());
        };
        let mut command = tool::command("nginx");
        command.args(arguments);
        server.enter(&mut command)?;
        let services = run.scenario.services.iter();
        let services: Vec<_> = services
            .filter(|one| matches!(one.server, Server::Nginx(_)))
            .collect();
        programs::enter_group(run, &services, NGINX, &mut command)?;
        // On SIGTERM, the master also ends its workers.
        self.start(run, NGINX, command, Signal::TERM)
    }

    fn start_own_server(
        &mut self,
        run: &mut Run,
        server: &Namespace,
        service: &Service,
        helper: &Helper,
    ) -> Result<(), Error> {
        let (name, port) = (&service.name, service.port);
        let (word, plan) = match service.server.clone() {
            other if !other.is_own() => return Ok(()),
            Server::SlowDns(dns) => {
                let addresses = Addresses::of(&run.scenario.path, Side::Server);
                let plan = DnsPlan {
                    dns,
                    port,
                    addresses,
                };
                ("dns", write_plan(run, name, &plan)?)
            }
            Server::Mail(mail) => ("mail", write_plan(run, name, &MailPlan { mail, port })?),
            server => {
                let keeps_stamps = server.keeps_stamps();
                let stamps = keeps_stamps.then(|| stamp::stamp_log(&run.folder(), name));
                let plan = ServePlan {
                    server,
                    port,
                    stamps,
                };
                ("serve", write_plan(run, name, &plan)?)
            }
        };
        let mut command = helper.command();
        command.arg(word).arg(plan);
        server.enter(&mut command)?;
        programs::enter_group(run, &[service], &service.name, &mut command)?;
        self.start(run, &service.name, command, Signal::KILL)
    }

    fn wait_until_listening(&mut self, run: &Run, server: &Namespace) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let ports = listening::ports(server)?;
            let mut services = run
                .scenario
                .services
                .iter()
                .filter(|service| service.server.listens());
            let Some(missing) = services.find(|service| !ports.contains(&service.port)) else {
                return Ok(());
            };
            let is_nginx = matches!(missing.server, Server::Nginx(_));
            let role = if is_nginx { NGINX } else { &missing.name };
            self.check_alive(run, role)?;
            if begun.elapsed() > READY_LIMIT {
                let waited_ms = u64::try_from(READY_LIMIT.as_millis()).unwrap_or(u64::MAX);
                let log = last_words(run, role);
                return Err(Error::NotListening {
                    service: missing.name.clone(),
                    port: missing.port,
                    waited_ms,
                    log,
                });
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// Adds nginx's workers to the run's record, so that the next run can end them if both the
    /// keeper and the nginx master are killed.
    fn note_workers(&self, run: &mut Run) -> Result<(), Error> {
        let Some(master) = run.processes.iter().find(|member| member.role == NGINX) else {
            return Ok(());
        };
        let master = master.process;
        // The master listens before it has started all workers, so this waits for them. The wait is
        // short because some kernels do not list children.
        let wanted = usize::from(nginx::workers(&programs::nginx_blocks(
            &run.scenario.services,
        )));
        let begun = Instant::now();
        while master.children().len() < wanted && begun.elapsed() < WORKERS_LIMIT {
            sleep(Duration::from_millis(2));
        }
        let workers = master.children().into_iter();
        run.processes.extend(workers.map(|process| Member {
            role: NGINX_WORKER.to_owned(),
            process,
        }));
        run.save()
    }
}

/// Loads the packet filters of both hosts. The server's filter includes the rules of its services.
fn load_firewalls(
    client: &Namespace,
    server: &Namespace,
    scenario: &Scenario,
) -> Result<(), Error> {
    let interface = link::interface(&scenario.path);
    let of_client = scenario.client.firewall.as_ref();
    firewall::load(client, of_client, [], interface)?;
    let of_server = scenario.server.firewall.as_ref();
    let services = scenario.services.iter();
    let of_services = services.filter_map(|one| Some((one.port, one.firewall.as_ref()?)));
    firewall::load(server, of_server, of_services, interface)
}

/// Writes the plan of a helper process into the run's folder, and returns its path.
fn write_plan(run: &Run, name: &str, plan: &impl Serialize) -> Result<std::path::PathBuf, Error> {
    let file = run.folder().join(format!("{name}.plan.json"));
    let text = serde_json::to_vec_pretty(plan).expect("a plan is text and numbers");
    fs::write(&file, text).map_err(Error::file("write", &file))?;
    Ok(file)
}
