import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The JDK's own HTTP server. Arguments: port, threads, megabytes of live data (0: none). Each
 * request replaces some pieces of the live data, which fills a small heap.
 */
public class Web {
    private static final int PIECE = 12_500;
    private static final int REPLACED = 20;
    /** The number of small objects per piece, which garbage collection has to visit. */
    private static final int SMALL = 17;

    public static void main(String[] arguments) throws IOException {
        var port = Integer.parseInt(arguments[0]);
        var threads = Integer.parseInt(arguments[1]);
        var pieces = new byte[Integer.parseInt(arguments[2]) * 1_000_000 / PIECE][];
        List<Object> small = new ArrayList<>();
        for (int i = 0; i < pieces.length; i++) {
            pieces[i] = new byte[PIECE];
            for (int n = 0; n < SMALL; n++) {
                small.add(new Object[] {"key" + n, small});
            }
        }
        var page = new byte[300];
        var server = HttpServer.create(new InetSocketAddress(port), 512);
        server.setExecutor(Executors.newFixedThreadPool(threads));
        server.createContext("/", exchange -> {
            var chance = ThreadLocalRandom.current();
            for (int i = 0; i < REPLACED && pieces.length > 0; i++) {
                pieces[chance.nextInt(pieces.length)] = new byte[PIECE];
            }
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }
}
