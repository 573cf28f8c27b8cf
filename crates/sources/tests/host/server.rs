//! A server in a separate process: this program, started again as a child. Each byte that it reads
//! is a command. It ends with its parent.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use lagtrace_sources::socket::foreign::OwnFlow;
use rustix::net::{self, AddressFamily, SocketType, sockopt};

/// Environment variable with the address on which the child listens.
const VARIABLE: &str = "LAGTRACE_HOST_TEST_LISTEN";

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// Address on which the server listens.
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server on `address`, in `namespace` if one is given.
    pub(crate) fn start(address: &str, namespace: Option<&str>) -> Self {
        let binary = std::env::current_exe().expect("we run");
        let mut command = match namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        let mut child = command
            .args(["--exact", "server::child", "--nocapture"])
            .env(VARIABLE, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let address = output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("listening on ")?.1.parse().ok())
            .expect("the child says where it listens");
        Self { child, address }
    }

    /// Returns the PID of the server, which replaces `ip netns exec` in its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// Runs the server in the child; does nothing in the test run itself.
#[test]
fn child() {
    let Some(address) = std::env::var_os(VARIABLE) else {
        return;
    };
    let address = address.into_string().expect("an address");
    let listener = TcpListener::bind(address).expect("the address is free");
    let bound = listener.local_addr().expect("bound");
    writeln!(io::stdout(), "listening on {bound}").expect("the parent reads");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || serve(connection));
        }
    });
    io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("ends with the parent");
}

fn serve(mut connection: TcpStream) -> Option<()> {
    let mut command = [0];
    loop {
        connection.read_exact(&mut command).ok()?;
        match &command {
            // Two small writes. Nagle's algorithm holds the second one.
            b"q" => {
                connection.write_all(b"A").ok()?;
                connection.write_all(b"B").ok()?;
            }
            b"n" => sockopt::set_tcp_nodelay(&connection, true).ok()?,
            b"f" => sockopt::set_tcp_nodelay(&connection, false).ok()?,
            b"c" => sockopt::set_tcp_cork(&connection, true).ok()?,
            b"o" => {
                let is_on = sockopt::tcp_nodelay(&connection).ok()?;
                connection.write_all(&[u8::from(is_on)]).ok()?;
            }
            _ => return None,
        }
    }
}

/// A connection to the server.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream }
    }

    /// Connects from a given port, which can be shared.
    pub(crate) fn connect_from(port: u16, address: SocketAddr) -> Self {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
        let own = SocketAddr::from(([0, 0, 0, 0], port));
        net::bind(&socket, &own).expect("the port is free");
        net::connect(&socket, &address).expect("the server listens");
        let stream = TcpStream::from(socket);
        Self { stream }
    }

    /// Sends commands that the server does not answer.
    pub(crate) fn tell(&mut self, commands: &[u8]) {
        self.stream.write_all(commands).expect("the server reads");
    }

    /// Makes one exchange. The server writes the answer in two parts.
    pub(crate) fn ask(&mut self) {
        self.tell(b"q");
        self.stream.read_exact(&mut [0; 2]).expect("an answer");
    }

    /// Returns the value of TCP_NODELAY that the server reads.
    pub(crate) fn ask_nodelay(&mut self) -> bool {
        self.tell(b"o");
        let mut answer = [0];
        self.stream.read_exact(&mut answer).expect("an answer");
        answer[0] == 1
    }

    pub(crate) fn flow(&self) -> OwnFlow {
        OwnFlow::of(&self.stream).expect("connected")
    }
}
