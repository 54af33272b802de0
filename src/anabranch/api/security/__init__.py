"""What stands between the network and the routes: addresses, other origins, limits and compression."""
