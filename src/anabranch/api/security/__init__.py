"""Between the network and the routes: public address, CORS, authentication and limits."""
