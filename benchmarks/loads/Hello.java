// An HTTP server with a pool of two threads that answers each request with a line.
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public final class Hello {
    public static void main(String[] words) throws IOException {
        byte[] line = "hello\n".getBytes();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0])), 0);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, line.length);
            exchange.getResponseBody().write(line);
            exchange.close();
        });
        server.start();
    }
}
