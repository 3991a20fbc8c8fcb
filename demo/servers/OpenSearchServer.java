// One OpenSearch node in a JVM of its own, without the security plugin; it listens on 127.0.0.1.
// java -cp "..." OpenSearchServer.java FOLDER HTTP_PORT TRANSPORT_PORT [setting=value ...]

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.codelibs.opensearch.runner.node.OpenSearchRunnerNode;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.plugins.Plugin;

public class OpenSearchServer {
    private static final List<String> MODULES = List.of(
        "org.opensearch.transport.Netty4ModulePlugin",
        "org.opensearch.analysis.common.CommonAnalysisModulePlugin",
        "org.opensearch.index.mapper.MapperExtrasModulePlugin",
        "org.opensearch.index.reindex.ReindexModulePlugin",
        "org.opensearch.painless.PainlessModulePlugin");

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]).toAbsolutePath();
        for (String name : List.of("config", "data", "logs", "modules", "plugins")) {
            Files.createDirectories(folder.resolve(name));
        }
        Settings.Builder settings = Settings.builder()
            .put("path.home", folder.toString())
            .put("path.data", folder.resolve("data").toString())
            .put("path.logs", folder.resolve("logs").toString())
            .put("cluster.name", "icefloe-test")
            .put("node.name", "only")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            // A machine whose disk is nearly full must not make every index read-only.
            .put("cluster.routing.allocation.disk.threshold_enabled", false);
        for (int i = 3; i < arguments.length; i++) {
            String[] setting = arguments[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        List<Class<? extends Plugin>> plugins = new ArrayList<>();
        for (String name : MODULES) {
            plugins.add(Class.forName(name).asSubclass(Plugin.class));
        }
        // The runner's own main takes only HTTP ports up to 9299 and exits without a word otherwise.
        OpenSearchRunnerNode node = new OpenSearchRunnerNode(
            InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), null, () -> "only"), plugins);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception failure) {
                failure.printStackTrace();
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
