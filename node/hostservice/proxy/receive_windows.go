package proxy

import "net"

func newReceiver(conn net.Conn) receiver { return &plainReceiver{conn, make([]byte, largestDatagram)} }

func newQuestions(listener datagramSocket) questions {
	return &plainQuestions{listener, make([]byte, largestDatagram)}
}

// passing says whether a socket goes on after an error. Go has Windows report nothing that concerns an earlier
// datagram (SIO_UDP_CONNRESET, SIO_UDP_NETRESET), so every error is the socket's own.
func passing(error) bool { return false }
