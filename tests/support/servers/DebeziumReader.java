import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;

import io.debezium.transforms.ExtractNewRecordState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * Reads a topic as a sink connector of Kafka Connect does: JsonConverter, then Debezium's ExtractNewRecordState.
 *
 * Arguments: brokers, topic, schemas.enable. Prints a line for each message: its key, a tab, the row that the
 * transformation leaves of it, both as JSON without schemas. The row of a delete has __deleted; a message that the
 * transformation drops leaves "dropped".
 */
public class DebeziumReader {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        JsonConverter keys = converter(true, arguments[2]);
        JsonConverter values = converter(false, arguments[2]);
        JsonConverter texts = converter(false, "false");
        try (ExtractNewRecordState<SinkRecord> unwrap = new ExtractNewRecordState<>();
                KafkaConsumer<byte[], byte[]> consumer = consumer(arguments[0])) {
            unwrap.configure(Map.of(
                    "delete.tombstone.handling.mode", "rewrite",
                    "add.fields", "op,source.snapshot_id,source.ts_ms,source.table,transaction.id"));
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(each -> new TopicPartition(topic, each.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (ConsumerRecord<byte[], byte[]> message : consumer.poll(Duration.ofMillis(200))) {
                    SchemaAndValue key = keys.toConnectData(topic, message.key());
                    SchemaAndValue value = values.toConnectData(topic, message.value());
                    SinkRecord row = unwrap.apply(new SinkRecord(topic, message.partition(), key.schema(), key.value(),
                            value.schema(), value.value(), message.offset()));
                    System.out.println(text(texts, key.schema(), key.value()) + "\t"
                            + (row == null ? "dropped" : text(texts, row.valueSchema(), row.value())));
                }
            }
        }
    }

    private static String text(JsonConverter texts, org.apache.kafka.connect.data.Schema schema, Object value) {
        byte[] found = texts.fromConnectData("", schema, value);
        return found == null ? "null" : new String(found, StandardCharsets.UTF_8);
    }

    private static JsonConverter converter(boolean isKey, String schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", schemas, "decimal.format", "NUMERIC"), isKey);
        return made;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String brokers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", brokers);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
