//! A host that is cut off says nothing more, and neither does the system: it holds a connection on which nothing comes
//! for hours. So it is asked to look after those between the processes of a run, and to break one when the other host
//! hasn't answered for a while.

use rustix::net::sockopt;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// How long nothing may come before the system asks whether the other host is there, and how long it waits for each
/// answer.
const QUIET: Duration = Duration::from_secs(4);
/// How often it asks before the connection is broken.
const ASKED: u32 = 3;

/// Has the system break the connection once the other host has been silent for [`QUIET`] and [`ASKED`] times that, or
/// has not acknowledged sent data for as long.
///
/// # Errors
/// If the system can't.
pub(super) fn keep(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, QUIET)?;
    sockopt::set_tcp_keepcnt(stream, ASKED)?;
    // Elsewhere what is sent is retried for some minutes.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, ((ASKED + 1) * QUIET).as_millis() as u32)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_is_looked_after() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        keep(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!((sockopt::tcp_keepidle(&stream).unwrap(), sockopt::tcp_keepintvl(&stream).unwrap()), (QUIET, QUIET));
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), ASKED);
    }
}
