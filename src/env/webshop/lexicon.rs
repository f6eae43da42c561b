//! The words that the catalogue is made of: kinds of products with their attributes. All texts are in small letters, so that a word is one
//! token wherever it stands.

/// A kind of product. Lists are separated by `|`.
pub struct ProductKind {
    /// The way through the categories, from the broadest; the first names the category.
    pub path: &'static str,
    /// What one searches for to find it; instructions call it so.
    pub query: &'static str,
    /// What titles call it.
    pub names: &'static str,
    /// The words before the name.
    pub traits: &'static str,
    /// The words after it, with their preposition.
    pub ends: &'static str,
    /// What a buyer chooses: the option's name and its values.
    pub options: &'static [(&'static str, &'static str)],
    /// The least and the greatest price, in dollars.
    pub price: (u32, u32),
}

const COLORS: &str = "black|white|navy|red|green|grey|brown|pink|purple|yellow|teal|beige|light blue|dark green|rose gold|wine";
const FABRICS: &str = "black|white|navy blue|heather grey|olive|burgundy|mustard|lavender|charcoal|khaki|coral|ivory";
const WOODS: &str = "walnut|espresso|natural oak|white|black|rustic brown|grey wash|cherry";
const CLOTHES: &str = "x-small|small|medium|large|x-large|xx-large|3x-large";
const SHOES: &str = "6|6.5|7|7.5|8|8.5|9|9.5 wide|10|11";
const BEDS: &str = "twin|full|queen|king|california king";
const BOTTLES: &str = "1.7 fl oz|3.4 fl oz|6.8 fl oz|8 fl oz|12 fl oz|16 fl oz";
const PACKS: &str = "1 pack|2 pack|3 pack|4 pack|6 pack|12 pack";
const WEIGHTS: &str = "4 ounce|8 ounce|12 ounce|1 pound|2 pound|5 pound";
const CABLES: &str = "3 feet|6 feet|10 feet|15 feet|25 feet|50 feet";
const SCENTS: &str = "lavender|vanilla|coconut|rose|citrus|sandalwood|unscented|green tea|eucalyptus";
const SHADES: &str = "nude|mauve|berry|coral|deep red|peach|mocha|plum|honey|ivory";
const FLAVORS: &str = "original|dark chocolate|sea salt|barbecue|cinnamon|maple|honey|spicy|ranch|lemon|peanut butter";

/// Names of makers: two of these parts each.
pub const SYLLABLES: &str = "no|va|lu|mi|ze|tra|ken|dor|fel|qui|bra|sol|nim|tor|pax|ri|gar|hul|jo|wes";

/// Words of titles that are no nouns. All others that begin with a letter are, the makers' names among them.
pub const OTHERS: &str =
    "4k|absorbing|adjustable|aging|android|anti|apply|artificial|assemble|assembled|back|bad|balanced|based|bathing|big|binding|black|\
    braided|breasted|breathable|broad|brushed|c|cancelling|caring|carry|carrying|casual|certified|charging|classic|clean|clinically|closed|\
    comfortable|compact|contemporary|control|cooked|cordless|crafted|crew|cross|cushioned|daily|damaged|dark|deep|detachable|diabetic|\
    dimmable|dining|disposable|double|dried|dry|drying|dual|e|easy|eat|eco|efficient|elastic|everyday|exquisite|extra|fair|fast|faux|fed|\
    fine|fit|floral|foldable|for|free|freshly|friendly|fully|gaming|gentle|genuine|geometric|giving|greasy|great|green|grilled|handy|heavy|\
    herbal|hidden|high|highly|hyaluronic|hydrating|hypoallergenic|in|individually|industrial|insulated|kosher|lasting|learning|light|\
    lightly|lightweight|lined|long|looking|loose|low|magnifying|male|matte|mid|mini|mixed|moisturizing|mountable|mounted|natural|nesting|\
    non|on|one|open|operated|oral|organic|outdoor|over|packed|padded|padding|painted|pigmented|pink|plated|portable|poured|powered|printed|\
    proof|proofed|protective|proven|quick|ready|real|rechargeable|reducing|reinforced|relaxed|remote|removable|removing|resealable|\
    resistant|reversible|roasted|running|s|safe|salted|saving|scented|seamless|sectional|sensitive|short|sided|simple|single|slim|small|\
    smart|smoked|smooth|soft|solid|special|stackable|stainless|stitched|straight|strappy|stretchy|styling|super|supporting|synthetic|\
    tapered|tasting|tempered|tested|thermal|thin|throw|to|toxic|tufted|ultra|universal|upholstered|use|vegan|vertical|volumizing|waisted|\
    washable|waterproof|whitening|whole|wicking|wide|wireless|with|wooden|woven|wrapped";

/// THE list of kinds.
pub const KINDS: &[ProductKind] = &[
    ProductKind {
        path: "beauty & personal care › hair care › shampoo",
        query: "shampoo",
        names: "shampoo|hair wash|scalp cleanser",
        traits: "sulfate free|paraben free|cruelty free|color safe|plant based|ph balanced|volumizing|alcohol free|clinically proven|vegan",
        ends: "for dry hair|for damaged hair|for oily scalp|with argan oil|with tea tree|with aloe vera",
        options: &[("scent", SCENTS), ("size", BOTTLES)],
        price: (6, 38),
    },
    ProductKind {
        path: "beauty & personal care › hair care › hair extensions",
        query: "hair extensions",
        names: "hair extensions|clip in hairpieces|ponytail extension",
        traits: "natural looking|heat resistant|double sided|long lasting|synthetic|seamless|high quality|tangle free|easy apply",
        ends: "for black women|for thin hair|with human hair|with hidden wire|for hair styling",
        options: &[("color", SHADES), ("length", "12 inch|14 inch|16 inch|18 inch|20 inch|24 inch")],
        price: (14, 120),
    },
    ProductKind {
        path: "beauty & personal care › skin care › moisturizers",
        query: "face moisturizers",
        names: "face moisturizer|face cream|day lotion",
        traits:
            "fragrance free|oil free|cruelty free|anti aging|dermatologist tested|paraben free|non greasy|hydrating|long lasting|gentle",
        ends: "for sensitive skin|for dry skin|for fine lines|with hyaluronic acid|with shea butter|with vitamin c",
        options: &[("size", BOTTLES), ("pack", PACKS)],
        price: (8, 62),
    },
    ProductKind {
        path: "beauty & personal care › skin care › sunscreens",
        query: "sunscreens",
        names: "sunscreen|sun lotion|mineral sunblock",
        traits: "water resistant|reef safe|broad spectrum|oil free|non toxic|fragrance free|fast absorbing|cruelty free|zinc based",
        ends: "for sensitive skin|for kids|for oily skin|with green tea|with coconut oil",
        options: &[("size", BOTTLES), ("pack", PACKS)],
        price: (7, 44),
    },
    ProductKind {
        path: "beauty & personal care › makeup › lips",
        query: "lipsticks",
        names: "lipstick|lip gloss|lip stain",
        traits: "long lasting|highly pigmented|cruelty free|matte|smudge proof|paraben free|kiss proof|moisturizing|vegan",
        ends: "for dry lips|for daily makeup|with shea butter|with vitamin e|with jojoba oil",
        options: &[("color", SHADES), ("pack", PACKS)],
        price: (4, 30),
    },
    ProductKind {
        path: "beauty & personal care › oral care › toothbrushes",
        query: "toothbrushes",
        names: "toothbrush|travel toothbrush|toothbrush set",
        traits: "bpa free|soft bristle|easy carry|eco friendly|rechargeable|waterproof|plaque removing|teeth whitening|extra gentle",
        ends: "for sensitive teeth|for oral hygiene|for bad breath|with bamboo handle|with travel case",
        options: &[("color", COLORS), ("pack", PACKS)],
        price: (5, 80),
    },
    ProductKind {
        path: "beauty & personal care › fragrance › candles",
        query: "scented candles",
        names: "candle|jar candle|candle gift set",
        traits: "lead free|long lasting|hand poured|soy based|smoke free|eco friendly|non toxic|clean burning",
        ends: "for living room|for home decor|with cotton wick|with wooden lid|for birthday gifts",
        options: &[("scent", SCENTS), ("size", WEIGHTS)],
        price: (9, 56),
    },
    ProductKind {
        path: "beauty & personal care › tools & accessories › mirrors",
        query: "makeup mirrors",
        names: "makeup mirror|vanity mirror|magnifying mirror",
        traits: "double sided|wall mounted|battery operated|easy clean|portable|dimmable|fog free|travel size",
        ends: "with led lights|with storage tray|for beauty salon|for bathroom walls|with suction cups",
        options: &[("color", COLORS), ("size", "5 inch|7 inch|8 inch|10 inch|12 inch")],
        price: (12, 140),
    },
    ProductKind {
        path: "electronics › audio › headphones",
        query: "headphones",
        names: "headphones|earbuds|headset",
        traits: "noise cancelling|wireless|fast charging|water resistant|hands free|lightweight|high definition|foldable|long lasting",
        ends: "with stereo sound|with carrying case|for iphone calls|with deep bass|for gaming laptops|with quick charge",
        options: &[("color", COLORS), ("style", "on ear|over ear|in ear|sport|studio")],
        price: (15, 290),
    },
    ProductKind {
        path: "electronics › audio › speakers",
        query: "bluetooth speakers",
        names: "speaker|bluetooth speaker|soundbar",
        traits: "portable|water resistant|hands free|wireless|high power|easy carry|dust proof|usb powered|long lasting",
        ends: "with stereo sound|with subwoofer bass|for home theater|for shower use|with carrying strap",
        options: &[("color", COLORS), ("style", "mini|classic|party|outdoor|desk")],
        price: (18, 320),
    },
    ProductKind {
        path: "electronics › accessories › cables",
        query: "hdmi cables",
        names: "hdmi cable|video cord|display cable",
        traits: "high speed|gold plated|braided|heavy duty|ultra hd|fire resistant|ready to use|male to male",
        ends: "with ethernet|for blu ray players|for home theater|with aluminum alloy|for gaming consoles",
        options: &[("length", CABLES), ("color", COLORS)],
        price: (5, 48),
    },
    ProductKind {
        path: "electronics › accessories › chargers",
        query: "phone chargers",
        names: "charger|charging stand|charging dock",
        traits: "fast charging|wireless|compact|heat resistant|usb port|portable|universal|travel ready",
        ends: "for iphone cases|for galaxy phones|with led indicator|with usb cable|with overcharge protection",
        options: &[("color", COLORS), ("pack", PACKS)],
        price: (8, 70),
    },
    ProductKind {
        path: "electronics › camera & photo › tripods",
        query: "camera tripods",
        names: "tripod|camera stand|phone tripod",
        traits: "lightweight|heavy duty|adjustable|quick release|easy carry|non slip|foldable|wall mountable",
        ends: "with carbon fiber|with carrying bag|for dslr cameras|with remote shutter|with aluminum alloy",
        options: &[("color", COLORS), ("height", "24 inch|42 inch|55 inch|62 inch|72 inch")],
        price: (14, 210),
    },
    ProductKind {
        path: "electronics › computers › tablets",
        query: "tablets",
        names: "tablet|android tablet|tablet computer",
        traits: "high performance|quad core|long lasting|lightweight|dual band|fast charging|high definition|kid proof",
        ends: "with dual cameras|with stylus pen|with octa core|for kids learning|with keyboard case",
        options: &[("color", COLORS), ("capacity", "16 gb|32 gb|64 gb|128 gb|256 gb")],
        price: (60, 620),
    },
    ProductKind {
        path: "electronics › television & video › projectors",
        query: "projectors",
        names: "projector|movie projector|mini projector",
        traits: "high definition|wireless|portable|low noise|high resolution|ceiling mounted|energy efficient|4k ready",
        ends: "for home theater|with stereo speakers|with projector screen|for outdoor movies|with hdmi input",
        options: &[("color", COLORS), ("style", "basic|plus|pro|bundle")],
        price: (55, 680),
    },
    ProductKind {
        path: "electronics › wearable technology › watch bands",
        query: "watch bands",
        names: "watch band|watch strap|bracelet band",
        traits: "quick release|water resistant|stainless steel|sweat proof|easy install|adjustable|hypoallergenic|breathable",
        ends: "for apple watches|with metal buckle|with soft silicone|with genuine leather|for fitness trackers",
        options: &[("color", COLORS), ("size", "38 mm|40 mm|42 mm|44 mm|45 mm")],
        price: (7, 60),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › men › shirts",
        query: "men's t-shirts",
        names: "men's tee|men's t-shirt|crewneck shirt",
        traits: "machine washable|slim fit|short sleeve|moisture wicking|quick drying|classic fit|hand washable|wrinkle free",
        ends: "with crew neck|with chest pocket|with polyester spandex|for daily wear|with graphic print",
        options: &[("color", FABRICS), ("size", CLOTHES)],
        price: (9, 48),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › women › dresses",
        query: "women's dresses",
        names: "women's dress|sundress|wrap dress",
        traits: "machine washable|long sleeve|short sleeve|hand washable|loose fit|high waisted|floral printed|light weight",
        ends: "for special occasions|with elastic waist|with side pockets|for daily wear|with polyester lining|with v neck",
        options: &[("color", FABRICS), ("size", CLOTHES)],
        price: (15, 95),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › men › loafers & slip-ons",
        query: "men's loafers & slip-ons",
        names: "men's loafers|men's slip-on shoes|driving moccasins",
        traits: "slip resistant|non slip|memory foam|hand stitched|comfortable|lightweight|breathable|water resistant",
        ends: "with rubber outsole|with rubber sole|with arch support|with genuine leather|for casual wear",
        options: &[("color", FABRICS), ("size", SHOES)],
        price: (24, 130),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › women › sandals",
        query: "women's sandals",
        names: "women's sandals|strappy sandals|wedge sandals",
        traits: "open toe|non slip|ankle strap|high heel|comfortable|hand woven|quick drying|closed toe",
        ends: "with rubber sole|with arch support|with memory foam|for summer beach|with faux leather",
        options: &[("color", FABRICS), ("size", SHOES)],
        price: (16, 92),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › women › coats",
        query: "women's coats",
        names: "women's coat|winter jacket|parka",
        traits: "fleece lined|long sleeve|water resistant|faux fur|machine washable|wind proof|quality material|double breasted",
        ends: "with detachable hood|with zipper closure|with side pockets|for cold weather|with drawstring waist",
        options: &[("color", FABRICS), ("size", CLOTHES)],
        price: (28, 190),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › men › pants",
        query: "men's pants",
        names: "men's pants|jogger sweatpants|cargo trousers",
        traits: "relaxed fit|slim fit|straight leg|machine washable|moisture wicking|stretchy|quick drying|tapered leg",
        ends: "with elastic waistband|with drawstring closure|with cargo pockets|for gym workout|with button closure",
        options: &[("color", FABRICS), ("size", CLOTHES)],
        price: (16, 84),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › women › swimsuits",
        query: "women's swimsuits",
        names: "women's swimsuit|bikini set|one piece bathing suit",
        traits: "tummy control|high waisted|quick drying|hand washable|padded cups|low rise|sun protective|cross back",
        ends: "with nylon spandex|with removable padding|for summer beach|with adjustable straps|with halter neck",
        options: &[("color", FABRICS), ("size", CLOTHES)],
        price: (17, 78),
    },
    ProductKind {
        path: "clothing, shoes & jewelry › men › socks",
        query: "men's socks",
        names: "men's socks|crew socks|ankle socks",
        traits: "moisture wicking|machine washable|odor free|cushioned|arch supporting|breathable|non binding|everyday",
        ends: "with polyester cotton|with reinforced heel|for running sports|for diabetic feet|with mesh panels",
        options: &[("color", FABRICS), ("size", CLOTHES), ("pack", PACKS)],
        price: (6, 36),
    },
    ProductKind {
        path: "home & kitchen › furniture › living room furniture › sofas",
        query: "sofas",
        names: "sofa|sectional couch|loveseat",
        traits: "mid century|button tufted|easy assemble|high density|space saving|stain resistant|contemporary|heavy duty",
        ends: "for living room|with solid wood|with storage ottoman|with velvet upholstery|with metal legs",
        options: &[("color", COLORS), ("size", "2 seat|3 seat|4 seat|l shape")],
        price: (180, 890),
    },
    ProductKind {
        path: "home & kitchen › furniture › tables",
        query: "coffee tables",
        names: "coffee table|end table|accent table",
        traits: "easy assemble|space saving|mid century|fully assembled|easy clean|water resistant|industrial style|nesting",
        ends: "with solid wood|with tempered glass|with steel frame|with storage shelf|for living room",
        options: &[("color", WOODS), ("size", "small|medium|large")],
        price: (38, 360),
    },
    ProductKind {
        path: "home & kitchen › furniture › bedroom furniture › beds",
        query: "bed frames",
        names: "bed frame|platform bed|upholstered bed",
        traits: "easy assemble|heavy duty|noise free|button tufted|low profile|space saving|box spring free|memory foam",
        ends: "with wood slats|with storage drawers|with headboard shelf|with steel frame|for guest bedroom",
        options: &[("color", WOODS), ("size", BEDS)],
        price: (90, 720),
    },
    ProductKind {
        path: "home & kitchen › bedding › bedspreads",
        query: "bedspreads",
        names: "bedspread set|quilt set|comforter",
        traits: "machine washable|super soft|fade resistant|hypoallergenic|queen size|lightweight|wrinkle free|all season",
        ends: "with pillow shams|with cotton filling|for guest bedroom|with floral pattern|with reversible print",
        options: &[("color", COLORS), ("size", BEDS)],
        price: (28, 160),
    },
    ProductKind {
        path: "home & kitchen › home decor › curtains",
        query: "window curtains",
        names: "curtains|curtain panels|drapes",
        traits: "machine washable|blackout|thermal insulated|easy install|noise reducing|fade resistant|eco friendly|energy saving",
        ends: "for living room|for dining room|with rod pocket|with grommet top|with printed polyester",
        options: &[("color", COLORS), ("length", "45 inch|63 inch|72 inch|84 inch|96 inch|108 inch")],
        price: (13, 96),
    },
    ProductKind {
        path: "home & kitchen › lighting › lamps",
        query: "table lamps",
        names: "table lamp|bedside lamp|desk lamp",
        traits: "energy efficient|touch control|brushed nickel|dimmable|easy install|space saving|eye caring|cordless",
        ends: "with fabric shade|with usb ports|with glass shade|for living room|with bronze finish",
        options: &[("color", COLORS), ("pack", PACKS)],
        price: (16, 150),
    },
    ProductKind {
        path: "home & kitchen › storage & organization › baskets",
        query: "storage baskets",
        names: "storage basket|storage bin|laundry hamper",
        traits: "space saving|hand woven|easy clean|foldable|eco friendly|water proof|non toxic|stackable",
        ends: "with leather handles|with removable lid|for living room|for baby clothes|with cotton rope",
        options: &[("color", COLORS), ("size", "small|medium|large|x-large")],
        price: (11, 74),
    },
    ProductKind {
        path: "home & kitchen › home decor › pillow covers",
        query: "pillow covers",
        names: "pillow cover|throw pillow case|cushion cover",
        traits: "machine washable|double sided|hand painted|super soft|fade resistant|exquisite workmanship|hidden zipper|eco friendly",
        ends: "for living room|with zipper closure|with tassel trim|for patio sofa|with geometric print",
        options: &[("color", COLORS), ("size", "12 x 20|16 x 16|18 x 18|20 x 20|24 x 24")],
        price: (7, 40),
    },
    ProductKind {
        path: "grocery & gourmet food › snacks › chips",
        query: "chips & crisps",
        names: "potato chips|veggie crisps|tortilla chips",
        traits: "gluten free|dairy free|non gmo|kettle cooked|low carb|nut free|artificial color free|plant based|kosher certified",
        ends: "with sea salt|with avocado oil|with simple ingredients|for school lunches|with resealable bag",
        options: &[("flavor", FLAVORS), ("size", WEIGHTS), ("pack", PACKS)],
        price: (4, 42),
    },
    ProductKind {
        path: "grocery & gourmet food › snacks › bars",
        query: "granola bars",
        names: "granola bars|protein bars|snack bars",
        traits: "gluten free|high protein|soy free|low sugar|keto friendly|non gmo|individually wrapped|grain free|plant based",
        ends: "with whole almonds|with chicory fiber|with natural ingredients|for kids lunches|with dried fruit",
        options: &[("flavor", FLAVORS), ("pack", PACKS)],
        price: (6, 46),
    },
    ProductKind {
        path: "grocery & gourmet food › beverages › tea",
        query: "teas",
        names: "tea bags|loose leaf tea|herbal tea",
        traits: "caffeine free|usda organic|hand crafted|non gmo|sugar free|kosher certified|fair trade|individually wrapped",
        ends: "with lemon balm|with natural flavors|with ginger root|for gift giving|for cold brew",
        options: &[("flavor", "chamomile|earl grey|jasmine|peppermint|ginger|rooibos|oolong"), ("pack", PACKS)],
        price: (5, 38),
    },
    ProductKind {
        path: "grocery & gourmet food › beverages › coffee",
        query: "coffee beans",
        names: "coffee beans|ground coffee|espresso beans",
        traits: "single origin|low acid|usda organic|fair trade|small batch|non gmo|freshly roasted|rainforest certified",
        ends: "with dark roast|with chocolate notes|for cold brew|with smooth finish|for drip machines",
        options: &[("flavor", FLAVORS), ("size", WEIGHTS)],
        price: (8, 58),
    },
    ProductKind {
        path: "grocery & gourmet food › pantry › spices",
        query: "spices & seasonings",
        names: "seasoning|spice blend|finishing salt",
        traits: "gluten free|non gmo|low sodium|hand harvested|sugar free|kosher certified|gmo free|salt free",
        ends: "with smoked paprika|with garlic powder|for grilled meat|with pink himalayan salt|with natural ingredients",
        options: &[("flavor", FLAVORS), ("size", WEIGHTS)],
        price: (4, 30),
    },
    ProductKind {
        path: "grocery & gourmet food › candy › chocolate",
        query: "chocolate candy",
        names: "chocolate squares|truffles|chocolate bark",
        traits: "sugar free|dairy free|individually wrapped|fair trade|nut free|keto friendly|bean to bar|great tasting",
        ends: "for valentine gifts|with sea salt|for birthday parties|with roasted almonds|with natural flavors",
        options: &[("flavor", FLAVORS), ("size", WEIGHTS)],
        price: (6, 52),
    },
    ProductKind {
        path: "grocery & gourmet food › meat substitutes › jerky",
        query: "jerky & dried meats",
        names: "beef jerky|meat sticks|turkey jerky",
        traits: "gluten free|high protein|grass fed|low carb|shelf stable|msg free|ready to eat|low fat",
        ends: "with real smoke|with natural ingredients|for road trips|with cane sugar|for keto diets",
        options: &[("flavor", FLAVORS), ("size", WEIGHTS), ("pack", PACKS)],
        price: (6, 64),
    },
    ProductKind {
        path: "grocery & gourmet food › dried fruits › nuts",
        query: "nuts & trail mixes",
        names: "mixed nuts|trail mix|roasted cashews",
        traits: "non gmo|dry roasted|plant based|lightly salted|usda organic|resealable|gluten free|protein packed",
        ends: "with dried cranberries|with dark chocolate|for gift baskets|with sea salt|for party snacks",
        options: &[("flavor", FLAVORS), ("size", WEIGHTS)],
        price: (7, 54),
    },
];
