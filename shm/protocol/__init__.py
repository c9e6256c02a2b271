"""Every message that crosses a socket, as typed structs: of clients, and between the processes."""
