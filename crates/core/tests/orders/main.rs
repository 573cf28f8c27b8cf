//! Every list that traffic can make longer, driven past its limit in each order: rising, falling,
//! random, splitting, in islands, again, and inwards. The operations are counted, and twice as much
//! traffic may take about twice as many.
//!
//! Without `LAGTRACE_ORDERS`, a few drivers and orders are drawn from `LAGTRACE_SEED`. With it, each
//! driver runs in each order, which takes long; its value is a part of the names to run, or empty.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it runs itself in valgrind, and says what is drawn"
)]

mod count;
#[path = "../hostile/draw.rs"]
mod draw;
mod drivers;
mod limits;
mod order;
mod subject;

use libtest_mimic::{Arguments, Failed, Trial};

use count::{CHILD, can_count, instructions};
use draw::Draw;
use drivers::{DRIVERS, Driver};
use order::Order;

const SEED: u64 = 20;
/// Number of drivers that are drawn, each with an order.
const DRAWN: usize = 3;
/// Maximum number of times that the number of keys is doubled.
const DOUBLED: usize = 3;
/// Maximum ratio of the operations for twice as many keys, less those of a run without any.
const MOST_OF_TWICE: f64 = 2.5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == CHILD) {
        return run(&arguments[2..]);
    }
    let seed = std::env::var("LAGTRACE_SEED").map_or(SEED, |said| said.parse().expect("a number"));
    let trials = match std::env::var("LAGTRACE_ORDERS") {
        Ok(part) => all(&part, seed),
        Err(_) => drawn(seed),
    };
    let trials = trials.into_iter().chain([limits::trial()]).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Runs a driver in this process: its name, the order's, the number of keys, and the seed.
fn run(arguments: &[String]) {
    let [driver, order, count, seed] = arguments else {
        panic!("driver, order, count and seed");
    };
    let mut all = DRIVERS.iter();
    let driver = all.find(|known| known.name == driver).expect("a driver");
    let mut orders = Order::ALL.iter();
    let (_, order) = orders.find(|(name, _)| name == order).expect("an order");
    let count = count.parse().expect("a count");
    let mut subject = (driver.begin)(count);
    for key in order.keys(count, seed.parse().expect("a seed")) {
        subject.take(key);
    }
    subject.end();
}

/// Returns a trial for each driver in each order whose name contains `part`.
fn all(part: &str, seed: u64) -> Vec<Trial> {
    let pairs = DRIVERS.iter().flat_map(|driver| {
        let orders = Order::ALL.iter();
        orders.map(move |(order, _)| trial(driver, order, seed))
    });
    pairs.filter(|trial| trial.name().contains(part)).collect()
}

fn drawn(seed: u64) -> Vec<Trial> {
    println!("{DRAWN} lists, drawn from LAGTRACE_SEED={seed}");
    let mut draw = Draw::new(seed);
    let pairs = (0..DRAWN).map(|_| {
        let driver = &DRIVERS[draw.below(DRIVERS.len())];
        let (order, _) = Order::ALL[draw.below(Order::ALL.len())];
        trial(driver, order, seed)
    });
    pairs.collect()
}

fn trial(driver: &'static Driver, order: &'static str, seed: u64) -> Trial {
    let name = format!("{}, {order}", driver.name);
    Trial::test(name, move || {
        if can_count() {
            return is_linear(driver, order, seed);
        }
        println!("skipped: needs valgrind");
        match std::env::var_os("LAGTRACE_REQUIRE_ALL") {
            None => Ok(()),
            Some(_) => Err("it was skipped".into()),
        }
    })
}

/// Counts the operations for ever more keys, until twice as many take about twice the operations. Work
/// that a limit ends may grow faster until it is reached.
fn is_linear(driver: &Driver, order: &str, seed: u64) -> Result<(), Failed> {
    let count = |keys| instructions(driver.name, order, keys, seed);
    let (none, mut keys) = (count(0), driver.keys);
    let mut once = count(keys).saturating_sub(none).max(1);
    for _ in 0..DOUBLED {
        let twice = count(keys * 2).saturating_sub(none).max(1);
        let ratio = twice as f64 / once as f64;
        let each = twice / u64::from(keys * 2);
        println!(
            "{each:9} for each key, ratio {ratio:.2}: {}, {order}",
            driver.name
        );
        if ratio <= MOST_OF_TWICE {
            return Ok(());
        }
        (once, keys) = (twice, keys * 2);
    }
    Err(format!("{once} operations for {keys} keys, and more than linear").into())
}
